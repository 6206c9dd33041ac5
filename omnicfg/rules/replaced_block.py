"""OC303: a block that replaces another one whole, and loses what the other set."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator
from collections.abc import Mapping as MappingOf
from typing import Any, Final

from omnicfg.catalog.upstream import deploy_schema, diffusion_arg_defaults
from omnicfg.diagnostics import Severity
from omnicfg.losses import Loss, outermost
from omnicfg.origins import is_written
from omnicfg.passes.deploy import RUNTIME_KEYS
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.rules.inherited_platform_block import is_unexpected
from omnicfg.tree import Mapping, Route, dotted, find, plain

RULE = Rule(
    code="OC303",
    name="replaced-block",
    severity=Severity.WARNING,
    what="A block of settings that replaces the one below it whole, so that what only the other one sets is lost.",
    why=(
        "vLLM-Omni merges few blocks: between files `engine_args`, `engine_extras`, the sampling and pooling "
        "parameters of a stage and `connectors`, in a platform's block the same (and `env`), but one level deep only. "
        "All others, such as `compilation_config`, `runtime`, `parallel_config` and `duplex_session`, are replaced. "
        "A block that names every setting of the one it replaces, if only to set it to null, and an empty one, are "
        "taken as meant."
    ),
    base="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    compilation_config: {cudagraph_mode: PIECEWISE, cudagraph_capture_sizes: [1, 2]}
""",
    bad="""\
pipeline: qwen3_tts
base_config: base.yaml
stages:
  - stage_id: 0
    compilation_config: {cudagraph_capture_sizes: [4]}
""",
    good="""\
pipeline: qwen3_tts
base_config: base.yaml
stages:
  - stage_id: 0
    compilation_config: {cudagraph_mode: PIECEWISE, cudagraph_capture_sizes: [4]}
""",
)

# What kind of block a block is: where that differs, the old block's settings belong to the old kind.
_KINDS: Final = ("method", "kv_connector", "quant_method", "cache_backend")
_VARIANT: Final = "hf_overrides"  # says as which variant a model runs; another one brings none of the old settings


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every block against the one that it replaced, in another file or on a platform."""
    losses = subject.losses
    on_platforms = (loss for loss in losses.on_platforms if not is_unexpected(loss, losses))  # those are OC302's
    found = (loss for loss in (*losses.in_files, *on_platforms) if is_written(loss.loser) and _lost(loss))
    for loss in outermost(found):
        lost = _lost(loss)
        yield Finding(loss.winner.mark, _message(loss, lost), _help(loss, lost), loss.stage_id, loss.platform)


def _lost(loss: Loss) -> list[Route]:
    """The settings that the replaced block had and that nothing has in the end; none where that is clearly meant.

    A setting that says what the engine does anyway is no loss.
    """
    upper, lower, final = loss.winner, loss.loser, loss.final
    if not (isinstance(upper, Mapping) and isinstance(lower, Mapping) and isinstance(final, Mapping)):
        return []
    if not upper.items or _is_of_another_kind(loss.route[-1], upper, lower):
        return []
    is_runtime = loss.route == ("runtime",)
    beside = loss.beside if is_runtime else find(loss.beside, ("engine_args", *loss.route))
    return [
        route
        for route in _missing(lower, upper)
        if (not is_runtime or route[0] in RUNTIME_KEYS)
        and find(final, route) is None
        and find(beside, route) is None
        and not _is_default(loss.route[-1], lower, route)
    ]


def _is_of_another_kind(name: Hashable, upper: Mapping, lower: Mapping) -> bool:
    if name == _VARIANT:
        return upper.items.keys().isdisjoint(lower.items)
    return any(upper.value(key) != lower.value(key) for key in _KINDS)


def _is_default(name: Hashable, lower: Mapping, route: Route) -> bool:
    defaults = _defaults().get(name, {})
    node, key = find(lower, route), route[0]
    if node is None or len(route) > 1 or not isinstance(key, str) or key not in defaults:
        return False
    return bool(plain(node) == defaults[key])


@functools.cache
def _defaults() -> MappingOf[Hashable, MappingOf[str, Any]]:
    """What the settings of a block are where it does not say, for the blocks whose defaults are known."""
    duplex = {name: field.default for name, field in deploy_schema().duplex_fields.items()}
    # A data-parallel size of null follows from the devices and the other sizes, and is 1 in the typed path.
    parallel = {**diffusion_arg_defaults()["parallel_config"], "data_parallel_size": 1}
    return {"parallel_config": parallel, "duplex_session": duplex}


def _missing(lower: Mapping, upper: Mapping) -> Iterator[Route]:
    for key, node in lower.items.items():
        other = upper.items.get(key)
        if other is None:
            yield (key,)
        elif isinstance(node, Mapping) and isinstance(other, Mapping) and other.items:
            yield from ((key, *rest) for rest in _missing(node, other))


def _message(loss: Loss, lost: list[Route]) -> str:
    names = ", ".join(f"`{dotted(route)}`" for route in lost)
    verb = "is" if len(lost) == 1 else "are"
    return f"`{loss.name}`{loss.where} replaces the block in {loss.loser.mark} whole: {names} {verb} lost"


def _help(loss: Loss, lost: list[Route]) -> str:
    repeat = f"Repeat what should stay, or set it to null: `{dotted(lost[0])}: null`."
    if loss.route[0] in ("env", "duplex_session"):
        return "Repeat what should stay; for a loss that is meant, `# omnicfg: ignore[OC303] because ...`."
    is_engine_arg = loss.stage_id is not None and loss.route[0] not in deploy_schema().reserved_keys
    if is_engine_arg and loss.platform is None:
        return f"{repeat} Under `engine_args:` blocks of two files merge."
    return repeat
