"""The conversation at a terminal that ends in a request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.compiler import check_platform, load, parsed_overrides
from omnicfg.errors import UsageError
from omnicfg.files import expanded
from omnicfg.init.questions import Questions
from omnicfg.init.request import Request, for_pipeline, on_profile
from omnicfg.near import did_you_mean
from omnicfg.passes.override import Override
from omnicfg.plan import Plan
from omnicfg.resources.placement import is_device_number
from omnicfg.tree import plain

_KINDS: Final = (
    ("overlay", "an overlay: a few settings on top of a profile that is there"),
    ("profile", "a profile of its own"),
)


def interview(
    file: Path | None,
    on: str | None,
    pipeline: str | None,
    platform: str | None,
    overrides: Sequence[Override],
    check_file: Callable[[Path], None],
) -> Request:
    """Asks for whatever is not said. Raises :class:`UsageError` where the answers end too soon."""
    questions = Questions(sys.stdin, sys.stderr)
    if on is None and pipeline is None:
        if questions.choose("What shall the file be?", _KINDS) == "overlay":
            on = questions.ask("On top of which profile?", "", _profile, library())
        else:
            pipeline = questions.ask("For which pipeline?", "", known_pipeline, pipelines())
    if platform is None:
        platform = questions.ask("For which platform?", "cuda", _platform, deploy_schema().platforms)
    if file is None:
        stem = Path(on).stem if on is not None else str(pipeline)
        default = f"{stem}_own.yaml" if on is not None else f"{stem}.yaml"
        file = questions.ask("Into which file?", default, lambda text: _file(text, check_file))
    return _with_settings(questions, file, on, pipeline, platform, overrides)


def _with_settings(
    questions: Questions,
    file: Path,
    on: str | None,
    pipeline: str | None,
    platform: str,
    overrides: Sequence[Override],
) -> Request:
    """What is asked of each stage; an empty answer leaves the setting as it is."""
    request = _request(file, on, pipeline, platform, overrides)
    plan = request.plan()
    given: dict[str, Any] = {}
    for stage in pipelines()[request.pipeline]["stages"]:
        for key, (what, unset, read) in _ASKED.items():
            if stage["execution_type"] == "diffusion" and key != "devices":
                continue
            now = _now(plan, stage["stage_id"], key) or unset
            question = f"Stage {stage['stage_id']} ({stage['model_stage']}): {what}?"
            value = questions.ask(question, now, _unless(now, read))
            if value is not None:
                given[f"stages.{stage['stage_id']}.{key}"] = value
    return _request(file, on, pipeline, platform, [*overrides, *parsed_overrides(given)])


def _request(file: Path, on: str | None, pipeline: str | None, platform: str, overrides: Sequence[Override]) -> Request:
    if on is not None:
        return on_profile(file, on, platform, overrides, pipeline)
    return for_pipeline(file, str(pipeline), platform, overrides)


def _now(plan: Plan | None, stage_id: int, key: str) -> str | None:
    stage = None if plan is None else plan.stage(stage_id)
    node = None if stage is None else stage.find((key,))
    value = None if node is None else plain(node)
    return None if value is None else str(value)


def _unless(default: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
    """``None`` for the default, which is what is there anyway."""
    return lambda text: None if text == default else read(text)


def _profile(text: str) -> str:
    if not text:
        raise UsageError("a name is needed", "A shipped profile's, or the path of a file.")
    load(text)
    return text


def known_pipeline(text: str) -> str:
    """A pipeline's key. Raises :class:`UsageError` with a near one."""
    if text not in pipelines():
        hint = did_you_mean(text, pipelines()) or "`omnicfg schema pipelines` lists them."
        raise UsageError(f"there is no pipeline `{text}`", hint)
    return text


def _platform(text: str) -> str:
    check_platform(text)
    return text


def _file(text: str, check: Callable[[Path], None]) -> Path:
    path = expanded(text)
    check(path)
    return path


def _devices(text: str) -> str:
    words = [word.strip() for word in text.split(",")]
    if not all(map(is_device_number, words)):
        raise UsageError(f"`{text}` is no list of devices", "Their numbers, with commas between them: 0 or 0,1.")
    return ",".join(words)


def _count(text: str) -> int:
    if not (is_device_number(text) and int(text)):
        raise UsageError(f"`{text}` is no number of requests", "A whole number, from 1.")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"`{text}` is no share", "A number above 0 and up to 1, such as 0.5.")
    return share


_ASKED: Final[dict[str, tuple[str, str, Callable[[str], Any]]]] = {
    "devices": ("devices, such as 0 or 0,1", "0", _devices),
    "max_num_seqs": ("requests at once", "vLLM's choice", _count),
    "gpu_memory_utilization": ("share of a device's memory", "an equal one", _share),
}
"""Setting → what is asked, what is there where nothing says any, and how an answer is read."""
