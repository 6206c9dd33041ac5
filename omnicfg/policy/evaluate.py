"""Asks policies about plans. CEL runs in a child process, which is ended where an expression takes too long."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean
from omnicfg.origins import is_written
from omnicfg.passes.effective import effective
from omnicfg.plan import Plan, StagePlan
from omnicfg.policy.file import Policy, PolicyError, known_names, problem, read_policies
from omnicfg.rule import Subject
from omnicfg.secrets import redacted
from omnicfg.tree import Mark

PATIENCE_S: Final = 10.0
START_S: Final = 60.0
OUT_OF_MEMORY: Final = "MEMORY"  # what the worker says where it noticed in time
VARIABLES: Final = ("profile", "platform", "pipeline", "deploy", "stages", "stage")
_WORKER: Final = Path(__file__).with_name("worker.py")
_BIGGEST: Final = 2**63
_PARTS: Final = {"engine_args": "engine_args", "effective": "engine_args", "runtime": "runtime", "extras": "extras"}
_OPERATORS: Final = {
    "_>_": ">", "_>=_": ">=", "_<_": "<", "_<=_": "<=", "_==_": "==", "_!=_": "!=", "_+_": "+", "_-_": "-", "_*_": "*",
    "_/_": "/", "_%_": "%", "_&&_": "&&", "_||_": "||", "@in": "in", "!_": "!", "-_": "-", "_?_:_": "? :",
}  # fmt: skip
_WORDS: Final = {"and": "&&", "or": "||", "not": "!"}
_TYPES: Final = {
    "null_type": "null", "null": "null", "int64": "a whole number", "int": "a whole number", "double": "a number",
    "string": "text", "bool": "true or false", "list": "a list", "map": "a mapping", "dyn": "any value",
}  # fmt: skip


class Outcome(NamedTuple):
    """What a policy says of a plan at one place; ``undecided`` says why it could not tell."""

    policy: Policy
    mark: Mark
    stage_id: int | None
    undecided: str | None = None
    help: str | None = None

    @property
    def diagnostic(self) -> Diagnostic:
        policy = self.policy
        message = policy.message
        if self.undecided is not None:
            where = "" if self.stage_id is None else f" for stage {self.stage_id}"
            message = f"undecided{where}, since {self.undecided}: {policy.message}"
        return Diagnostic.at(
            self.mark,
            policy.id,
            policy.name,
            policy.severity,
            message,
            stage_id=self.stage_id,
            help=self.help or policy.help,
        )


class Policies:
    """Policies ready to be asked, with the process that evaluates them. Use it as a context manager.

    Raises :class:`PolicyError` where a file or an expression is wrong, :class:`UsageError` without the CEL library.
    """

    def __init__(self, paths: Sequence[Path | str]) -> None:
        self.policies = read_policies(paths)
        self._evaluator = _Evaluator()
        self._programs: list[_Program] = []
        try:
            self._compile()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._evaluator.close()

    def outcomes(self, plan: Plan, vllm_version: str, only: Policy | None = None) -> list[Outcome]:
        """Where the plan violates a policy (``only`` that one, if given), or where one cannot tell."""
        asked = [each for each in self._programs if only in (None, each.policy)]
        programs = [each for each in asked if plan.platform in each.policy.platforms]
        if not programs:
            return []
        filled = effective(plan, vllm_version) if any(each.reads_effective for each in programs) else None
        self._evaluator.show(_data(plan, filled))
        return [outcome for program in programs for outcome in self._ask(program, plan)]

    def findings(self, subject: Subject) -> Iterator[Diagnostic]:
        """What the policies say of the plans of a profile."""
        for platform, plan in subject.plans.items():
            for outcome in self.outcomes(plan, subject.vllm_version):
                yield replace(outcome.diagnostic, platform=platform)

    def _compile(self) -> None:
        problems: list[Diagnostic] = []
        for policy in self.policies:
            whole = self._evaluator.compile(policy.expression.text, None)
            if "errors" in whole:
                problems += _problems(policy, whole["errors"])
                continue
            body = policy.expression.body("exists" if policy.denies else "all")
            single = None if body is None else self._evaluator.compile(body.text, body.variable)
            compiled = whole if single is None or "errors" in single else single
            self._programs.append(_Program(policy, compiled["program"], compiled["each_stage"]))
        if problems:
            raise PolicyError(problems)

    def _ask(self, program: _Program, plan: Plan) -> Iterator[Outcome]:
        policy = program.policy
        asked: list[StagePlan | None] = list(plan.stages) if program.each_stage else [None]
        for position, stage in enumerate(asked):
            answer = self._evaluator.ask(program.number, None if stage is None else position)
            if answer.get("value") is not (policy.denies if "value" in answer else None):
                continue
            undecided, help = _undecided(policy, answer["error"]) if "error" in answer else (None, None)
            stage_id = None if stage is None else stage.stage_id
            yield Outcome(policy, _place(policy, plan, stage), stage_id, undecided, help)


class _Program(NamedTuple):
    policy: Policy
    number: int
    each_stage: bool

    @property
    def reads_effective(self) -> bool:
        return "effective" in self.policy.expression.code


# ------------------------------------------------------------------------------------------------- the process


class _Evaluator:
    """The child process. A program that it could not end in time is not asked again."""

    def __init__(self) -> None:
        if importlib.util.find_spec("cel_expr_python") is None:
            raise UsageError("policies need the CEL library", "`pip install 'omnicfg[policy]'`.")
        self._sources: list[tuple[str, str | None]] = []
        self._given_up: dict[int, str] = {}
        self._plan: dict[str, Any] = {}
        self._start()

    def compile(self, text: str, variable: str | None) -> dict[str, Any]:
        answer = self._exchange({"compile": text, "variable": variable})
        if answer is None:
            return {"errors": [[0, 0, self._restart()]]}
        if "program" in answer:
            self._sources.append((text, variable))
        return answer

    def show(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        if self._exchange({"plan": plan}) is None:
            self._restart()

    def ask(self, program: int, position: int | None) -> dict[str, Any]:
        if program in self._given_up:
            return {"error": self._given_up[program]}
        answer = self._exchange({"program": program, "stage": position})
        if answer is None:
            self._given_up[program] = self._restart()
            return {"error": self._given_up[program]}
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        known: list[dict[str, Any]] = [{"plan": self._plan}]
        known += ({"compile": text, "variable": name} for text, name in self._sources)
        if any(self._exchange(request, START_S) is None for request in known):
            self.close()
            raise UsageError("the CEL library does not start", "`python -c 'import cel_expr_python.cel'` says why.")

    def _restart(self) -> str:
        """A fresh process that knows what the last one knew; why that one is gone."""
        ended = self._process.poll() is not None
        self.close()
        self._start()
        return "the expression takes too much memory" if ended else f"the expression takes more than {PATIENCE_S:g} s"

    def _exchange(self, request: dict[str, Any], patience: float | None = None) -> dict[str, Any] | None:
        """The answer; ``None`` where there was none in time, or the process is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait()
            return None
        line = self._line(patience or PATIENCE_S)
        if line is None or not line.endswith(b"\n"):
            return None
        answer: dict[str, Any] = json.loads(line)
        if answer.get("error") == OUT_OF_MEMORY:
            self.close()
            return None
        return answer

    def _line(self, patience: float) -> bytes | None:
        assert self._process.stdout is not None
        received = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(patience):
                    return None
                part = os.read(self._process.stdout.fileno(), 1 << 16)
                if not part:
                    self._process.wait()
                    return None
                received += part
        return received


# ------------------------------------------------------------------------------------------------ plan and places


def _data(plan: Plan, filled: Plan | None) -> dict[str, Any]:
    """The variables of an expression: the plan, credentials hidden; ``effective`` of each stage where it is asked."""
    data: dict[str, Any] = plan.to_dict()
    if filled is not None:
        for stage, full in zip(data["stages"], filled.stages, strict=True):
            stage["effective"] = full.tree.value("engine_args")
    portable = _portable(redacted("", data))
    assert isinstance(portable, dict)
    return portable


def _portable(value: Any) -> Any:
    """The value as CEL has them: keys are text, whole numbers have 64 bits."""
    if isinstance(value, dict):
        return {str(key): _portable(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_portable(child) for child in value]
    if type(value) is int and not -_BIGGEST <= value < _BIGGEST:
        return float(value) if abs(value) < 10**300 else float("inf")
    return value


def _place(policy: Policy, plan: Plan, stage: StagePlan | None) -> Mark:
    """The first written setting that the expression names; else the stage, or the profile."""
    if stage is None:
        nodes = (plan.deploy.get(each.name) for each in policy.expression.deploy_settings())
    else:
        named = policy.expression.settings()
        nodes = (stage.tree.mapping(_PARTS[each.part]).get(each.name) for each in named)
    written = next((node.mark for node in nodes if node is not None and is_written(node)), None)
    if written is not None:
        return written
    return Mark(plan.tree.mark.file, 1, 1, 1, 1) if stage is None else plan.stage_mark(stage.stage_id)


# ----------------------------------------------------------------------------------------------------- messages


def _problems(policy: Policy, errors: list[list[Any]]) -> Iterator[Diagnostic]:
    """What is wrong with an expression; what follows from that is left out."""
    line, column, told = errors[0]
    expression = policy.expression
    for name in re.findall(r"undeclared reference to '(\w+)", " ".join(error[2] for error in errors)):
        at = re.search(rf"(?<![.\w]){name}\b", expression.code)
        if at:
            hint = did_you_mean(name, VARIABLES) or f"There are {', '.join(f'`{each}`' for each in VARIABLES)}."
            mark = expression.place(at.start(), len(name))
            yield problem(mark, f"policy {policy.id}: nothing is called `{name}` here", hint)
            return
    mark = expression.place(expression.index(line, column)) if line and column else expression.mark
    word = re.match(r"mismatched input '(and|or|not)'", re.sub("^Syntax error: ", "", told))
    yield problem(mark, f"policy {policy.id}: {_in_words(told)}", f"CEL writes `{_WORDS[word[1]]}`." if word else None)


def _in_words(told: str) -> str:
    """An error of the CEL library in the words of this project, where those are known."""
    told = re.sub(r"^(?:[A-Z_]+: )?(?:Syntax error: )?|\s*\[[A-Z_]+\]$", "", told)
    told = re.sub(r",? expecting \{.*\}$", "", told).replace(
        "mismatched input '<EOF>'", "the expression ends too early"
    )
    mixed = re.match(
        r"(?:No matching overloads found : |found no matching overload for ')([^'(]+)(?:' applied to ')?\((.*?)\)", told
    )
    if mixed:
        return f"`{_OPERATORS.get(mixed[1], mixed[1])}` does not take {' and '.join(_kinds(mixed[2]))}"
    index = re.match(r"Index error: index=(-?\d+) size=(\d+)", told)
    if index:
        return f"a list of {index[2]} has no entry {index[1]}"
    given = re.match(r"the expression gives (\w+)", told)
    return f"the expression gives {_kinds(given[1])[0]}, not true or false" if given else told


def _kinds(text: str) -> list[str]:
    """``null_type, int64`` in words."""
    names = re.split(r",\s*(?![^(<]*[)>])", text)
    return [_TYPES.get(re.sub(r"[(<].*", "", name).lower(), name) for name in names]


def _undecided(policy: Policy, told: str) -> tuple[str, str | None]:
    """Why a policy cannot tell, and what to do about it."""
    missing = re.search(r'Key not found in map : "(.*)"', told)
    if missing:
        return f"`{missing[1]}` is not set here", _missing_help(policy, missing[1])
    if "Iteration budget" in told:
        return "the expression looks at more than 10,000 values", None
    words = _in_words(told)
    return words, "Compare with null first: `x != null && ...`." if "null" in words else None


def _missing_help(policy: Policy, name: str) -> str:
    parts = {setting.part for setting in policy.expression.settings() if setting.name == name}
    if name not in known_names() or not parts <= {"engine_args"}:
        return f"Ask first whether it is set: `has(x.{name})`."
    if not parts:
        return f"An engine arg is `stage.engine_args.{name}`."
    return (
        f"Ask first whether it is set, with `has(x.{name})`, or read `effective.{name}`, where vLLM's default stands."
    )
