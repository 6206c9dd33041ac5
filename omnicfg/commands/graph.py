"""``omnicfg graph``: what a profile is made from, and what its stages hand to each other."""

from __future__ import annotations

import sys
from typing import Annotated

from omnicfg.commands._options import (
    MODEL_DIR,
    ONE_PLATFORM,
    OVERLAYS,
    PIPELINE,
    PROFILE,
    SETTINGS,
    check_one_pipeline,
)
from omnicfg.parser import Option
from omnicfg.report.graphs import format_names

HELP = "Draw what a profile inherits from, and what its stages hand to each other."

FORMAT = Annotated[str, Option("--format", choices=format_names(), help="mermaid and dot are for other tools.")]


def run(
    profile: PROFILE,
    platform: ONE_PLATFORM = "cuda",
    pipeline: PIPELINE = None,
    model: MODEL_DIR = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    format: FORMAT = "tree",
) -> None:
    """Raises :class:`~omnicfg.errors.OmnicfgError` for a profile that cannot be compiled."""
    from omnicfg.commands._plans import Request
    from omnicfg.compiler import check_platform
    from omnicfg.graph.model import graph_of
    from omnicfg.report.graphs import renderer
    from omnicfg.report.terminal import Style, has_colour, width_of

    check_platform(platform)
    check_one_pipeline(pipeline, model)
    request = Request(profile, pipeline, model, overlays, settings)
    graph = graph_of(request.loaded, request.plan(platform))
    sys.stdout.write(renderer(format)(graph, Style(has_colour(sys.stdout)), width_of(sys.stdout)))
