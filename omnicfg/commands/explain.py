"""``omnicfg explain``: the whole chain behind one value, and what is known of it."""

from __future__ import annotations

import sys
from typing import Annotated

from omnicfg.commands._options import (
    MODEL_DIR,
    OVERLAYS,
    PIPELINE,
    PLATFORM,
    PROFILE,
    SETTINGS,
    VLLM_VERSION,
    check_one_pipeline,
)
from omnicfg.commands._plans import Request, platforms_of, tell, vllm_version_of
from omnicfg.explain import Explanation, explain
from omnicfg.parser import Argument, Option
from omnicfg.tree import plain

HELP = "Show the chain of settings behind one value, and what is known of it."

KEY = Annotated[str, Argument("KEY", help="Such as stages.0.enable_prefix_caching or duplex_session.max_sessions.")]
FORMAT = Annotated[str, Option("--format", choices=("text", "json"), help="How to print it.")]


def run(
    profile: PROFILE,
    key: KEY,
    platform: PLATFORM = "cuda",
    pipeline: PIPELINE = None,
    model: MODEL_DIR = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    vllm_version: VLLM_VERSION = None,
    format: FORMAT = "text",
) -> int:
    """Exit code: 1 where one of several platforms refuses the profile. A key that exists nowhere is trouble."""
    version = vllm_version_of(vllm_version)
    check_one_pipeline(pipeline, model)
    request = Request(profile, pipeline, model, overlays, settings)
    plans, errors = request.some_plans(platforms_of(platform))
    found = {name: explain(plan, key, request.deployed(name), version) for name, plan in plans.items()}
    _print(found, request, format, whole=platform == "all")
    for error in errors.values():
        tell(error)
    return 1 if errors else 0


def _print(found: dict[str, Explanation], request: Request, format: str, *, whole: bool) -> None:
    recipes = {name: _recipe(request, explanation) for name, explanation in found.items()}
    if format == "json":
        from omnicfg.report.explanation import explanation_data
        from omnicfg.report.json import dumps

        data = {name: explanation_data(explanation, recipes[name]) for name, explanation in found.items()}
        sys.stdout.write(dumps(data if whole else next(iter(data.values()))))
        return
    from omnicfg.report.explanation import render_explanation
    from omnicfg.report.terminal import Style, has_colour, width_of

    style, width = Style(has_colour(sys.stdout)), width_of(sys.stdout)
    texts = [render_explanation(explanation, style, width, recipes[name]) for name, explanation in found.items()]
    sys.stdout.write("\n".join(texts))


def _recipe(request: Request, found: Explanation) -> str | None:
    """The overlay that turns a prefix cache off, where it is on."""
    if found.name != "enable_prefix_caching" or found.node is None or plain(found.node) is not True or not found.known:
        return None
    from omnicfg.recipes import overlay_for

    stage_id = found.known[0].stage.stage_id
    return overlay_for(
        request.loaded, found.plan.platform, request.pipeline, stage_id, found.name, False, request.overrides
    )
