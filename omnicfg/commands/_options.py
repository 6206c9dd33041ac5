"""Options that several commands share, so that they read and behave alike everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

from omnicfg.errors import UsageError
from omnicfg.parser import Argument, Option, parameters


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
ONE_PLATFORM = Annotated[
    str, Option("--platform", metavar="P", help="cuda, npu, rocm, xpu or musa.", words=deploy_platforms)
]
PLATFORM_OR_CUDA = Annotated[
    str | None,
    Option("--platform", metavar="P", help="cuda, npu, rocm, xpu or musa; else cuda.", words=deploy_platforms),
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
ROOT = Annotated[
    Path | None, Option("--root", metavar="DIR", help="Read no profile, base or configuration outside this directory.")
]
ALLOW_ENV = Annotated[
    list[str] | None,
    Option("--allow-env", metavar="NAME", help="A variable that profiles may use in ${oc.env:NAME}; repeatable."),
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


def refuse_unread(way: str, given: Mapping[str, object], hint: str) -> None:
    """Raises :class:`UsageError` where options are given that a way of calling a command does not read.

    Whoever gives one believes that it does something; so none is passed over.
    """
    unread = [f"`{option}`" for option in said(given)]
    if unread:
        raise UsageError(f"`{way}` takes no {' and no '.join(unread)}", hint)


def said(options: Mapping[str, object]) -> list[str]:
    """The options that are given, of those whose default is ``None`` or ``False``."""
    return [option for option, value in options.items() if value is not None and value is not False]


def check_one_pipeline(pipeline: str | None, model: Path | None) -> None:
    """For a command that asks a model for its pipeline and for nothing else: it is not asked twice."""
    if pipeline is not None and model is not None:
        raise UsageError("`--pipeline` and `--model` both tell the pipeline", "Give one of them.")


def reading(root: ROOT = None, allow_env: ALLOW_ENV = None) -> AbstractContextManager[None]:
    """What profiles may reach: options of every command that takes profiles, and the context that it runs in."""
    from omnicfg.confine import confined

    return confined(root, allow_env or ())


def limits_of(command: Callable[..., Any]) -> list[Callable[..., AbstractContextManager[None]]]:
    """:func:`reading`, for a command that reads profiles it is told; nothing for others."""
    told = any(each.name == "overlays" or each.declared.words is profile_names for each in parameters(command))
    return [reading] if told else []
