"""The text of a first file. Everything that is no comment in it was asked for, or has to be there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.catalog.library import library
from omnicfg.catalog.paths import schemas_dir
from omnicfg.catalog.upstream import default_deploy_files, pipelines
from omnicfg.compiler import compile_profile
from omnicfg.differences.compare import same
from omnicfg.errors import ResolveError
from omnicfg.init.request import Request
from omnicfg.migrate.bases import same_project
from omnicfg.passes.deploy import deploy
from omnicfg.passes.inherit import merge_documents
from omnicfg.passes.read import read_text
from omnicfg.plan import Plan, StagePlan
from omnicfg.report.terminal import one_line
from omnicfg.report.yaml import inline, scalar
from omnicfg.tree import Layer, LayerKind, plain

_SCHEMA: Final = "profile.schema.json"
_SCHEMAS_URL: Final = "https://raw.githubusercontent.com/omnicfg/omnicfg/main/schemas/"
_SHARE: Final = 0.9
"""Of a device's memory, for all stages on it together: the rest is for what is not reserved."""
_WORDS: Final = {
    "devices": "The numbers of the devices that it runs on, as text; one for each process.",
    "gpu_memory_utilization": "Its share of each device's memory; what all stages of a device have is at most 1.",
    "max_num_seqs": "How many requests it works on at once. More of them need more room in the KV cache.",
    "max_num_batched_tokens": "How many tokens one step takes in at most.",
    "max_model_len": "The longest request in tokens, prompt and answer together.",
    "enable_prefix_caching": "Whether what requests begin with alike is computed once.",
    "enforce_eager": "Starts sooner, without compiling anything, and runs slower.",
}
_EXAMPLES: Final[Mapping[str, Any]] = {"max_num_seqs": 8, "enforce_eager": True}
"""Values to begin with where no profile says any: small, and right for every model."""


def text_of(request: Request) -> str:
    """The whole file."""
    return "".join(f"{line}\n" for line in _lines(request))


def _lines(request: Request) -> Iterator[str]:
    yield f"# yaml-language-server: $schema={schema_reference(request.path)}"
    plan = request.plan()
    if plan is None:
        yield from _profile_head(request)
        stages = {stage_id: dict(entry) for stage_id, entry in _whole_stages(request).items()}
        yield from _stages(request, stages, None)
    else:
        yield from _overlay_head(request, plan)
        common, special = _divided(request)
        yield from _stages(request, common, plan)
        yield from _platform(request, special)


def schema_reference(path: Path) -> str:
    """The schema as a modeline names it: relative where both lie in one project, else by its address."""
    schema, folder = schemas_dir() / _SCHEMA, Path(os.path.abspath(path.parent))  # noqa: PTH100  # links stay
    if same_project(schema, folder):
        return Path(os.path.relpath(schema, folder)).as_posix()
    return f"{_SCHEMAS_URL}{_SCHEMA}"


def base_reference(request: Request) -> str | None:
    """How ``base_config`` names the base; ``None`` for a shipped profile that lies elsewhere, which needs an option."""
    assert request.base is not None
    folder = Path(os.path.abspath(request.path.parent))  # noqa: PTH100
    base = Path(os.path.abspath(request.base.path))  # noqa: PTH100
    if base in library().values() and not same_project(base, folder):
        return None
    return Path(os.path.relpath(base, folder)).as_posix()


def _overlay_head(request: Request, plan: Plan) -> Iterator[str]:
    assert request.base is not None
    reference, shown = base_reference(request), request.base.shown
    name, below = _word(request.path.name), _word(Path(shown).stem)
    yield f"# On top of {one_line(Path(shown).name)}: what is said here goes over it, all else stays as it is."
    yield f"# The settings behind a `#` have the values of {plan.platform}; without it they are this file's own."
    if reference is None:
        yield "#"
        yield f"#   omnicfg validate {below} --overlay {name}"
        yield f"#   omnicfg resolve {below} --overlay {name} --platform {plan.platform} --explain"
    else:
        yield "#"
        yield f"#   omnicfg validate {name}"
        yield f"#   omnicfg resolve {name} --platform {plan.platform} --explain"
        yield ""
        yield f"base_config: {scalar(reference)}"
    for key, value in request.top.items():
        yield f"{scalar(key)}: {inline(value)}"


def _word(name: str) -> str:
    """A name as a word of a command, on one line."""
    return shlex.quote(one_line(name))


def _profile_head(request: Request) -> Iterator[str]:
    name = _word(request.path.name)
    yield f"# A profile for the pipeline {request.pipeline}, to begin with."
    yield "#"
    yield f"#   omnicfg validate {name}"
    yield f"#   omnicfg resolve {name} --platform {request.platform} --explain"
    shipped = [name for name in library() if _is_of(name, request.pipeline)]
    if shipped:
        yield "#"
        yield f"# Shipped for the same pipeline: {', '.join(shipped)} (`omnicfg resolve NAME`)."
    yield ""
    yield f"pipeline: {scalar(request.pipeline)}"
    if len(pipelines()[request.pipeline]["stages"]) > 1:
        in_chunks = request.top.get("async_chunk", _can_chunk(request.pipeline))
        yield "# Whether a stage hands on what it has while it is still at work, which some pipelines can."
        yield f"async_chunk: {inline(in_chunks)}"
    if any(stage["execution_type"] != "diffusion" for stage in pipelines()[request.pipeline]["stages"]):
        yield f"# {_WORDS['enable_prefix_caching']} vLLM does where nothing is said; not every stage takes it well."
        yield f"enable_prefix_caching: {inline(request.top.get('enable_prefix_caching', False))}"
    for key, value in request.top.items():
        if key not in ("pipeline", "async_chunk", "enable_prefix_caching"):
            yield f"{scalar(key)}: {inline(value)}"


def _is_of(profile: str, pipeline: str) -> bool:
    return default_deploy_files().get(f"{profile}.yaml") == pipeline


def _can_chunk(pipeline: str) -> bool:
    stages = pipelines()[pipeline]["stages"]
    return any(stage.get("async_chunk_process_next_stage_input_func") for stage in stages)


def _whole_stages(request: Request) -> dict[int, dict[str, Any]]:
    """Every stage of the pipeline on device 0, with an equal share of it, unless settings say otherwise."""
    stages = pipelines()[request.pipeline]["stages"]
    entries: dict[int, dict[str, Any]] = {}
    for stage in stages:
        said = request.stages.get(stage["stage_id"], {})
        entries[stage["stage_id"]] = {"devices": said.get("devices", "0"), **said}
    sharing = [stage["stage_id"] for stage in stages if stage["execution_type"] != "diffusion"]
    users: dict[str, int] = {}
    for stage_id in sharing:
        for device in str(entries[stage_id]["devices"]).split(","):
            users[device.strip()] = users.get(device.strip(), 0) + 1
    for stage_id in sharing:
        most = max(users[device.strip()] for device in str(entries[stage_id]["devices"]).split(","))
        entries[stage_id].setdefault("gpu_memory_utilization", int(100 * _SHARE / most) / 100)
    return entries


def _divided(request: Request) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]]]:
    """The settings of stages that take effect where they stand first, and those that only a platform's block sets."""
    special: dict[int, dict[str, Any]] = {}
    common: dict[int, dict[str, Any]] = {}
    for stage_id, settings in request.stages.items():
        for key, value in settings.items():
            taken = _takes_effect(request, stage_id, key, value)
            (common if taken else special).setdefault(stage_id, {})[key] = value
    return common, special


def _takes_effect(request: Request, stage_id: int, key: str, value: Any) -> bool:
    assert request.base is not None
    layer = Layer(LayerKind.OVERLAY, request.path.name)
    text = f"stages: [{inline({'stage_id': stage_id, key: value})}]\n"
    raw = merge_documents(request.base.raw, read_text(text, layer, request.path.name))
    try:
        plan = compile_profile(request.base._replace(raw=raw, deploy=deploy(raw)), request.platform, request.pipeline)
    except ResolveError:
        return True  # the proof of the whole file will say why
    stage = plan.stage(stage_id)
    node = None if stage is None else stage.find((key,))
    if node is None or isinstance(value, dict):
        return True
    return same(plain(node), value)


def _stages(request: Request, entries: Mapping[int, Mapping[str, Any]], plan: Plan | None) -> Iterator[str]:
    yield ""
    yield "stages:"
    for stage in pipelines()[request.pipeline]["stages"]:
        yield f"  # {stage['model_stage']}"
        yield f"  - stage_id: {stage['stage_id']}"
        own = entries.get(stage["stage_id"], {})
        at = None if plan is None else plan.stage(stage["stage_id"])
        yield from (f"    {line}" for line in _settings(own, _offered(stage, at)))
        yield ""


def _offered(stage: Mapping[str, Any], at: StagePlan | None) -> dict[str, Any]:
    """What is shown as a comment: what the profile below has, as far as no platform's block decides it."""
    if at is None:
        return {} if stage["execution_type"] == "diffusion" else dict(_EXAMPLES)
    found: dict[str, Any] = {}
    for key in _WORDS:
        node = at.find((key,))
        if node is not None and plain(node) is not None and node.layer.kind in (LayerKind.BASE, LayerKind.PROFILE):
            found[key] = plain(node)
    return found


def _settings(own: Mapping[str, Any], offered: Mapping[str, Any]) -> Iterator[str]:
    """A stage's settings, each below what it is; those that are only offered behind a ``#``."""
    for key in [*_WORDS, *(key for key in own if key not in _WORDS)]:
        if key in own:
            if key in _WORDS:
                yield f"# {_WORDS[key]}"
            yield f"{scalar(key)}: {inline(own[key])}"
        elif key in offered:
            yield f"# {_WORDS[key]}"
            yield f"# {scalar(key)}: {inline(offered[key])}"


def _platform(request: Request, special: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    if not special:
        return
    yield f"# The profile below says these in a block for {request.platform}, over which only another such block goes."
    yield "platforms:"
    yield f"  {request.platform}:"
    yield "    stages:"
    for stage_id, settings in special.items():
        yield f"      - stage_id: {stage_id}"
        yield from (f"        {line}" for line in _settings(settings, {}))
