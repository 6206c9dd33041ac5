"""``omnicfg export``: a compiled profile for something else to run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from omnicfg.commands._options import ONE_PLATFORM, OVERLAYS, PIPELINE, PROFILE, SETTINGS
from omnicfg.deploy_targets import names
from omnicfg.errors import UsageError
from omnicfg.parser import Option

if TYPE_CHECKING:
    from omnicfg.deploy_targets import Target
    from omnicfg.deploy_targets._workload import Workload
    from omnicfg.plan import Plan

HELP = "Write a checked profile as a Kubernetes manifest, a compose file, or a flat file for vLLM-Omni."

TO = Annotated[str, Option("--to", choices=names(), help="What to write.")]
OUT = Annotated[
    Path | None, Option("--out", "-o", metavar="FILE", help="Write it into this file, not to the terminal.")
]
MODEL = Annotated[
    str | None, Option("--model", help="What the server serves: an id on the hub, or the full path of a directory.")
]
ENGINE = Annotated[
    str, Option("--engine", choices=("bundled", "vllm-omni"), help="Whose server runs in the container.")
]
IMAGE = Annotated[str | None, Option("--image", help="The container's image, where not vLLM-Omni's own.")]
NAME = Annotated[str | None, Option("--name", help="What the server is called; else as the profile is.")]
PORT = Annotated[
    int | None, Option("--port", min=1, max=65535, help="The port that the server is reached by; else 8091.")
]

_FIRST: Final = "# Made by `omnicfg export"
_DEFAULT_PORT: Final = 8091
_DEFAULT_ENGINE: Final = "vllm-omni"


def run(
    profile: PROFILE,
    to: TO,
    platform: ONE_PLATFORM = "cuda",
    out: OUT = None,
    model: MODEL = None,
    engine: ENGINE = _DEFAULT_ENGINE,
    image: IMAGE = None,
    name: NAME = None,
    port: PORT = None,
    pipeline: PIPELINE = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
) -> int:
    """Exit code: 0, or 1 where the profile has errors, and nothing is written. A file of another origin is kept."""
    from omnicfg.commands._serving import checked_plan
    from omnicfg.compiler import check_platform
    from omnicfg.deploy_targets import target
    from omnicfg.files import write_whole

    check_platform(platform)
    chosen = target(to)
    engine_said = None if engine == _DEFAULT_ENGINE else engine
    said = {
        "--model": model,
        "--image": image,
        "--name": name,
        "--engine": engine_said,
        "--port": None if port is None else str(port),
    }
    _check_options(chosen, to, said)
    if out is not None:
        _check_out(out)
    plan = checked_plan(profile, platform, overlays or [], settings or [], pipeline, model, engine)
    if plan is None:
        return 1
    made_by = _made_by(profile, to, platform, overlays or [], settings or [], said)
    text = chosen.render(_workload(chosen, plan, made_by, model, engine, image, name, port or _DEFAULT_PORT))
    if out is None:
        sys.stdout.write(text)
    else:
        write_whole(out, text)
    return 0


def _workload(
    chosen: Target,
    plan: Plan,
    made_by: str,
    model: str | None,
    engine: str,
    image: str | None,
    name: str | None,
    port: int,
) -> Workload:
    from omnicfg.commands._serving import default_model
    from omnicfg.deploy_targets._workload import check_engine, profile_only, workload

    check_engine(plan, engine)
    if not chosen.SERVES:
        return profile_only(plan, made_by)
    served = default_model(plan.pipeline) if model is None else model
    return workload(plan, made_by, name=name, model=served, image=image, port=port, engine=engine)


def _check_options(chosen: Target, to: str, given: dict[str, str | None]) -> None:
    """Options of a server's make no sense where none is written about."""
    for option, value in given.items():
        if value is not None and not chosen.SERVES:
            raise UsageError(f"`{option}` means nothing with `--to {to}`", "It writes the profile alone; leave it out.")


def _check_out(out: Path) -> None:
    """Raises :class:`UsageError` where a file would be lost that ``omnicfg export`` did not write."""
    from omnicfg.files import check_writable

    check_writable(out)
    if not out.is_file():
        return
    with out.open("rb") as stream:
        first = stream.read(len(_FIRST)).decode("utf-8", "replace")
    if first and first != _FIRST:
        raise UsageError(
            f"`{out}` is there already, and `omnicfg export` did not write it", "Name another file, or remove it first."
        )


def _made_by(
    profile: str, to: str, platform: str, overlays: list[Path], settings: list[str], options: dict[str, str | None]
) -> str:
    """The command, which makes the same file again; credentials are hidden."""
    import shlex

    from omnicfg.secrets import redacted_setting

    words = ["omnicfg", "export", profile, "--to", to, "--platform", platform]
    words += [word for overlay in overlays for word in ("--overlay", str(overlay))]
    words += [word for setting in settings for word in ("--set", redacted_setting(setting))]
    words += [word for option, value in options.items() if value is not None for word in (option, value)]
    return shlex.join(words)
