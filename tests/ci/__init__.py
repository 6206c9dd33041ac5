"""What others run omnicfg by: the GitHub Action, the GitLab job, pre-commit."""
