"""``--to vllm-omni``: one flat deploy file, from which vLLM-Omni makes the same engine args on the platform."""

from __future__ import annotations

from typing import Final

from omnicfg.deploy_targets._workload import Workload
from omnicfg.report.yaml import comment

SERVES: Final = False


def render(workload: Workload) -> str:
    """Bases, overlays, the platform's block and settings are in it; ``vllm serve --deploy-config FILE`` takes it."""
    about = f"Made by `{workload.made_by}`.\nFor {workload.platform}: `vllm serve MODEL --omni --deploy-config FILE`."
    for reference in workload.references:
        about += f"\n{reference.path} comes from the environment variable {reference.variable}."
    return f"{comment(about)}{workload.text}"
