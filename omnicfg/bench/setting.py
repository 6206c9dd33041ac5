"""What a bench measures on, and with: the arms' servers as they would be started, and what identifies them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from omnicfg import __version__
from omnicfg.bench.arms import ALONE, Arm
from omnicfg.bench.loads import Load
from omnicfg.engine.spec import text_config
from omnicfg.plan import Plan
from omnicfg.serve import engines, preflight
from omnicfg.serve.engines import bundled
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine, installed_version, this_machine
from omnicfg.serve.speech import silent_reason, speaks
from omnicfg.serve.text_part import text_part

HOST: Final = "127.0.0.1"
_LIMITS: Final = ("max_num_seqs", "max_num_batched_tokens", "kv_cache_memory_bytes")


@dataclass(frozen=True)
class Subject:
    """An arm with the request for its server; ``url`` is that of a server that runs already."""

    arm: Arm
    request: Request
    engine: str
    url: str | None = None

    @property
    def name(self) -> str:
        return self.arm.name

    @property
    def digest(self) -> str:
        """What the plan is told apart by."""
        told = [self.request.plan.to_dict(), self.arm.alone, self.arm.rows, self.engine]
        plan = json.dumps(told, sort_keys=True, default=str)
        return hashlib.sha256(plan.encode()).hexdigest()[:16]

    @property
    def limits(self) -> dict[str, int | None]:
        """How much of the first stage's server there is, as far as the plan says."""
        stage = self.request.plan.stages[0]
        return {name: value if isinstance(value := stage.arg(name), int) else None for name in _LIMITS}

    def problems(self, machine: Machine) -> Iterator[Any]:
        """Why no server could be started for it here."""
        chosen = engines.engine(self.engine)
        yield from chosen.refusals(self.request)
        yield from chosen.problems(self.request, machine)
        if self.arm.alone and self.engine == "bundled" and text_part(self.request, machine) is not None:
            yield preflight.problem(
                f"arm {self.name}: of this model only the text part can be served here, by classes of the engine's own",
                f"Leave `{ALONE}` out: vLLM has no plain server for it.",
            )
        if self.arm.alone and self.engine == "vllm-omni":
            yield preflight.problem(
                f"arm {self.name}: vLLM-Omni starts every stage of a pipeline", f"Leave `{ALONE}` out."
            )
        if self.arm.rows and (self.engine != "bundled" or bundled.rows_socket(self.request) is None):
            yield preflight.problem(
                f"arm {self.name}: no hidden states are kept that requests could ask for",
                "They are by the bundled engine, where a later stage of the plan reads them.",
            )

    def request_on(self, port: int) -> Request:
        """The request for a server on a port."""
        return replace(self.request, port=port)

    def launch(self, request: Request, machine: Machine, speech: bool) -> Launch:
        """What is started: all stages where an answer in speech is wanted, else the first one of the bundled engine."""
        if self.engine == "bundled" and not speech:
            return bundled.first_stage(request, machine)
        return engines.engine(self.engine).launch(request, machine)

    def socket(self, request: Request) -> Path | None:
        """Where its hidden states are taken in; ``None`` where nobody asks for them."""
        return bundled.rows_socket(request) if self.arm.rows else None

    def unfit(self, load: Load, answers: frozenset[str]) -> str | None:
        """Why a load cannot be sent to it by a driver that takes ``answers``; ``None`` where it can."""
        limit = self.limit()
        if self.arm.rows and load.answer == "speech":
            return "in speech, hidden states go to the next stage"
        if load.answer not in answers:
            return f"the driver sends no request for {load.answer}"
        if limit is not None and load.longest > limit:
            return f"a request takes {load.longest} tokens, the context {limit}"
        if load.answer == "speech" and self.url is None:
            if not speaks(self.request.plan):
                return "the plan gives no speech"
            if self.engine == "bundled" and (reason := silent_reason(self.request)):
                return f"no speech: {reason}"
        return None

    def limit(self) -> int | None:
        """Tokens of the longest context: the plan's, else the model's own."""
        own = self.request.plan.stages[0].arg("max_model_len")
        if isinstance(own, int) and own > 0:
            return own
        config: Mapping[str, Any] = text_config(self.request.config or {})
        longest = config.get("max_position_embeddings")
        return longest if isinstance(longest, int) else None


def subject(arm: Arm, request: Request, engine: str, url: str | None) -> Subject:
    """An arm's subject. An arm of the first stage alone has a plan without the others."""
    if arm.alone:
        request = replace(request, plan=_first_stage(request.plan))
    return Subject(arm, request, engine, url)


def _first_stage(plan: Plan) -> Plan:
    """The plan without what reads its first stage."""
    tree = plan.tree.copy()
    stages = plan.tree.sequence("stages").copy()
    stages.items = stages.items[:1]
    tree.items["stages"] = stages
    return Plan(tree, plan.stage_marks)


def require(subjects: list[Subject]) -> None:
    """Raises one error with all that keeps the servers from being started; nothing where they can be."""
    machine = this_machine()
    problems = {
        (problem.message, problem.help): problem
        for one in subjects
        if one.url is None
        for problem in (*one.problems(machine), *preflight.model_problems(one.request.model))
    }
    preflight.require(problems.values())


def machine_facts() -> dict[str, Any]:
    """This machine, without a name that would tell whose it is."""
    machine = this_machine()
    return {
        "gpus": list(machine.gpus),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "omnicfg": __version__,
            "python": platform.python_version(),
            "vllm": machine.vllm.version if machine.vllm else None,
            "vllm-omni": machine.vllm_omni,
            "torch": installed_version("torch"),
            "transformers": installed_version("transformers"),
        },
    }


def _cpu() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
