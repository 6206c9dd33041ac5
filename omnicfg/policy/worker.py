"""Compiles and evaluates CEL for :mod:`omnicfg.policy.evaluate`, in a process of its own.

Run as a file, not as a module: it must start fast, and see nothing of what it judges but what it is sent. One line of
JSON in, one line of JSON out:

- ``{"compile": TEXT, "variable": NAME | null}`` → ``{"program": N, "each_stage": BOOL}``, or
  ``{"errors": [[line, column, message], ...]}`` with lines and columns from 1 (0: nowhere in particular);
- ``{"plan": {...}}`` → ``{}``: what the programs are asked about from now on;
- ``{"program": N, "stage": POSITION | null}`` → ``{"value": BOOL}`` or ``{"error": TEXT}``.

The library bounds how often an expression loops (10,000 times) and how deep it nests (32 levels). What it can still
do is build long texts, which ``MEMORY`` ends, and take long about it, which the parent ends.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Final

from cel_expr_python import cel

MEMORY: Final = 1 << 30  # bytes of address space
STAGE: Final = "stage"
_ERROR: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_TEXT: Final = cel.Type.STRING
_VARIABLES: Final = {
    "profile": _TEXT,
    "platform": _TEXT,
    "pipeline": _TEXT,
    "deploy": cel.Type("map<string, dyn>"),
    "stages": cel.Type.List(cel.Type.DYN),
}


class Worker:
    """The programs compiled so far, and the plan that they are asked about."""

    def __init__(self) -> None:
        self.programs: list[tuple[Any, str | None]] = []
        self.plan: dict[str, Any] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "compile" in request:
            return self.compile(request["compile"], request["variable"])
        if "plan" in request:
            self.plan = request["plan"]
            return {}
        return self.ask(request["program"], request["stage"])

    def compile(self, text: str, variable: str | None) -> dict[str, Any]:
        """``variable`` stands for one stage; without it, an expression that uses ``stage`` is about one."""
        program = _compiled(text, variable)
        if isinstance(program, list) and variable is None and _is_about_a_stage(program):
            variable = STAGE
            program = _compiled(text, variable)
        if isinstance(program, list):
            return {"errors": program}
        kind = program.return_type().name()
        if kind not in ("BOOL", "DYN"):
            return {"errors": [[0, 0, f"the expression gives {kind}, not true or false"]]}
        self.programs.append((program, variable))
        return {"program": len(self.programs) - 1, "each_stage": variable is not None}

    def ask(self, number: int, position: int | None) -> dict[str, Any]:
        program, variable = self.programs[number]
        data = self.plan if variable is None else {**self.plan, variable: self.plan["stages"][position]}
        try:
            found = program.eval(data=data)
        except RuntimeError as error:
            return {"error": str(error)}
        value = found.plain_value()
        kind = found.type().name()
        if kind == "ERROR":
            return {"error": str(value)}
        return {"value": value} if kind == "BOOL" else {"error": f"the expression gives {kind}, not true or false"}


def _compiled(text: str, variable: str | None) -> Any:
    """The program, or the list of errors."""
    variables = _VARIABLES if variable is None else {**_VARIABLES, variable: cel.Type.DYN}
    try:
        return cel.NewEnv(variables=variables).compile(text)
    except (RuntimeError, UnicodeError) as error:
        found = [[max(int(line), 0), max(int(column), 0), told] for line, column, told in _ERROR.findall(str(error))]
        return found or [[0, 0, str(error)]]


def _is_about_a_stage(errors: list[list[Any]]) -> bool:
    return any(re.match(rf"undeclared reference to '{STAGE}['.]", told) for _, _, told in errors)


def main() -> None:
    """Answer until the input ends."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, OSError, ValueError):  # no such limit on this system: the parent's patience is the only one
        pass
    worker = Worker()
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except MemoryError:
            answer = {"error": "MEMORY"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
