"""Options that several commands share, so that they read and behave alike everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from omnicfg.parser import Argument, Option


def profile_names() -> Iterable[str]:
    """The shipped profiles, for a shell to complete."""
    from omnicfg.catalog.library import library

    return library()


def platform_names() -> Iterable[str]:
    """The platforms and ``all``, for a shell to complete."""
    from omnicfg.catalog.upstream import deploy_schema

    return (*deploy_schema().platforms, "all")


def deploy_platforms() -> Iterable[str]:
    """The platforms, for a shell to complete where only one can be asked for."""
    from omnicfg.catalog.upstream import deploy_schema

    return deploy_schema().platforms


def pipeline_keys() -> Iterable[str]:
    """The registered pipelines, for a shell to complete."""
    from omnicfg.catalog.upstream import pipelines

    return pipelines()


def vllm_versions() -> Iterable[str]:
    """The versions of vLLM whose engine args are shipped, for a shell to complete."""
    from omnicfg.catalog import vllm_args

    return vllm_args.vllm_versions()


PROFILE = Annotated[
    str, Argument("PROFILE", help="A profile's path, or the name of a shipped one.", words=profile_names)
]
PLATFORM = Annotated[
    str, Option("--platform", metavar="P", help="cuda, npu, rocm, xpu, musa, or all.", words=platform_names)
]
PIPELINE = Annotated[
    str | None,
    Option("--pipeline", metavar="KEY", help="Pipeline key, where the profile names none.", words=pipeline_keys),
]
MODEL_DIR = Annotated[
    Path | None, Option("--model", metavar="DIR", help="Model directory; its config.json tells the pipeline.")
]
OVERLAYS = Annotated[
    list[Path] | None, Option("--overlay", metavar="FILE", help="A file that goes on top; repeatable.")
]
SETTINGS = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="One value, such as stages.0.max_num_seqs=8; repeatable."),
]
EFFECTIVE = Annotated[bool, Option("--effective", help="Fill in vLLM's own defaults for what is unset.")]
VLLM_VERSION = Annotated[
    str | None,
    Option("--vllm-version", metavar="V", help="Whose engine args count, where not 0.32.0's.", words=vllm_versions),
]
ENGINE = Annotated[
    str | None,
    Option("--engine", choices=("vllm-omni", "bundled"), help="The engine that the profile is for; else vllm-omni."),
]
