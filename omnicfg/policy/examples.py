"""``policy test``: policies tried on the profiles that are listed beside them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnicfg.catalog.vllm_args import vllm_versions
from omnicfg.compiler import resolve
from omnicfg.errors import OmnicfgError
from omnicfg.plan import Plan
from omnicfg.policy.evaluate import Outcome, Policies
from omnicfg.policy.file import Example, Policy
from omnicfg.tree import Mark


@dataclass(frozen=True)
class Trial:
    """One example of a policy; ``problem`` says why it did not go as expected, ``None`` where it did."""

    policy: Policy
    example: Example
    problem: str | None

    def to_dict(self) -> dict[str, Any]:
        example = self.example
        return {
            "policy": self.policy.id,
            "expected": example.expected,
            "profile": None if example.is_inline else example.profile,
            "platform": example.platform,
            "path": example.mark.file,
            "line": example.mark.line,
            "column": example.mark.column,
            "ok": self.problem is None,
            "problem": self.problem,
        }


def trials(policies: Policies) -> Iterator[Trial]:
    """Every example of every policy, tried."""
    for policy in policies.policies:
        for example in policy.examples:
            yield Trial(policy, example, _problem(policies, policy, example))


def _problem(policies: Policies, policy: Policy, example: Example) -> str | None:
    try:
        plan = _plan(example)
    except OmnicfgError as error:
        return f"the profile does not compile: {error.diagnostics[0].code} {error.diagnostics[0].message}"
    outcomes = policies.outcomes(plan, vllm_versions()[0], only=policy)
    undecided = next((outcome.undecided for outcome in outcomes if outcome.undecided is not None), None)
    if undecided is not None:
        return f"the policy cannot be decided: {undecided}"
    if example.expected == "fail":
        return None if outcomes else "the policy finds nothing"
    return _found(outcomes[0]) if outcomes else None


def _plan(example: Example) -> Plan:
    """The example compiled; a path is looked for beside the policy file first."""
    if example.is_inline:
        with tempfile.TemporaryDirectory(prefix="omnicfg-") as folder:
            path = Path(folder) / "example.yaml"
            path.write_text(example.profile, encoding="utf-8")
            return resolve(path, platform=example.platform, overrides=example.settings)
    beside = Path(example.mark.file).parent / example.profile
    profile = str(beside) if beside.is_file() else example.profile
    return resolve(profile, platform=example.platform, overrides=example.settings)


def _found(outcome: Outcome) -> str:
    where = "the profile" if outcome.stage_id is None else f"stage {outcome.stage_id}"
    place = Mark(Path(outcome.mark.file).name, *outcome.mark[1:])
    return f"the policy finds {where} ({place})"
