"""Options that several commands share, so that they read and behave alike everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PROFILE = Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's path, or the name of a shipped one.")]
PLATFORM = Annotated[str, typer.Option("--platform", help="cuda, npu, rocm, xpu, musa, or all.")]
PIPELINE = Annotated[str | None, typer.Option("--pipeline", help="Pipeline key, where the profile names none.")]
MODEL_DIR = Annotated[Path | None, typer.Option("--model", help="Model directory; its config.json tells the pipeline.")]
OVERLAYS = Annotated[list[Path] | None, typer.Option("--overlay", help="A file that goes on top; repeatable.")]
SETTINGS = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One value, such as stages.0.max_num_seqs=8; repeatable.")]
ENGINE = Annotated[str, typer.Option("--engine", help="The engine the profile is for: vllm-omni or bundled.")]
