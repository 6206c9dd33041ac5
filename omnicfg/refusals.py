"""The reasons for which a profile cannot be compiled at all; everything milder is a rule in :mod:`omnicfg.rules`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from omnicfg.errors import ResolveError
from omnicfg.tree import Mark

if TYPE_CHECKING:
    from omnicfg.diagnostics import Diagnostic


class Refusal(NamedTuple):
    """A documented reason to stop: its stable code and what it means."""

    code: str
    what: str


REFUSALS: dict[str, Refusal] = {
    "unreadable-file": Refusal(
        "OC001", "A profile, base or overlay is missing, is no regular file or cannot be decoded."
    ),
    "yaml-syntax": Refusal("OC002", "The file is not well-formed YAML."),
    "duplicate-key": Refusal("OC003", "A mapping has the same key twice; vLLM-Omni's reader refuses that as well."),
    "too-large": Refusal("OC004", "The file exceeds a limit on size, depth or alias expansion."),
    "unsupported-yaml": Refusal("OC005", "A YAML feature that no deploy profile needs: custom tags, non-scalar keys."),
    "bad-base": Refusal("OC006", "`base_config` is not the path of a YAML file that can be read."),
    "base-cycle": Refusal("OC007", "The `base_config` chain comes back to a file that it already passed."),
    "wrong-container": Refusal("OC008", "A list stands where a mapping belongs, or a block is null or a scalar."),
    "interpolation": Refusal("OC009", "A `${...}` expression cannot be resolved, or may not be."),
    "removed-schema": Refusal("OC010", "The profile uses the `stage_args` schema, which vLLM-Omni removed."),
    "missing-stage-id": Refusal("OC011", "A stage entry has no `stage_id`, so nothing says which stage it configures."),
    "unknown-pipeline": Refusal("OC012", "The pipeline key is not registered."),
    "no-pipeline": Refusal("OC013", "Nothing says which pipeline the profile configures."),
    "bad-model-runner": Refusal("OC014", "`model_runner` is neither v1 nor v2."),
    "runner-on-platform": Refusal("OC015", "Model Runner V2 does not run on this platform."),
    "no-async-chunk": Refusal("OC016", "`async_chunk` is on for a pipeline without an async-chunk producer."),
    "async-chunk-edge": Refusal("OC017", "Two connected stages disagree on `async_chunk`."),
    "reserved-engine-arg": Refusal("OC018", "`engine_extras` sets an engine arg that is derived, not configured."),
    "bad-duplex-session": Refusal("OC019", "`duplex_session` has an unknown key or a limit that is not positive."),
    "bad-override": Refusal("OC020", "A `--set` or override names no setting, or its value cannot be read."),
    "bad-value": Refusal("OC021", "A value cannot be converted to what its setting needs."),
    "outside-root": Refusal("OC022", "A file lies outside the directory that `--root` confines reading to."),
}

_collected: ContextVar[list[Diagnostic] | None] = ContextVar("refusals", default=None)


def refuse(name: str, mark: Mark | None, message: str, help: str | None = None, **where: str | int | None) -> NoReturn:
    """Stop compiling: raise :class:`ResolveError` with one diagnostic of the named refusal.

    ``where`` may hold ``platform`` and ``stage_id``.
    """
    raise ResolveError([refusal(name, mark, message, help, **where)])


def refuse_and_go_on(
    name: str, mark: Mark | None, message: str, help: str | None = None, **where: str | int | None
) -> None:
    """As :func:`refuse`; but where refusals are collected (:func:`collecting`), reading goes on after this one."""
    found = _collected.get()
    if found is None:
        refuse(name, mark, message, help, **where)
    told = refusal(name, mark, message, help, **where)
    if told not in found:  # a text may be read twice, by two parsers
        found.append(told)


@contextmanager
def collecting(found: list[Diagnostic]) -> Iterator[None]:
    """Inside, refusals that one can go on after come into ``found``."""
    token = _collected.set(found)
    try:
        yield
    finally:
        _collected.reset(token)


def refusal(
    name: str, mark: Mark | None, message: str, help: str | None = None, **where: str | int | None
) -> Diagnostic:
    """The diagnostic that :func:`refuse` raises, for passes that collect several before they stop."""
    platform, stage_id = where.get("platform"), where.get("stage_id")
    assert platform is None or isinstance(platform, str)
    assert stage_id is None or isinstance(stage_id, int)
    from omnicfg.diagnostics import Diagnostic, Severity

    code = REFUSALS[name].code
    return Diagnostic.at(mark, code, name, Severity.ERROR, message, platform=platform, stage_id=stage_id, help=help)
