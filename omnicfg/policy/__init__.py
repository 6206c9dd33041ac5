"""A team's own rules: a YAML file of CEL expressions over the plan, for ``validate --policy`` and ``policy test``."""
