"""``omnicfg serve``: compile, check, start."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from omnicfg.commands._options import ONE_PLATFORM, OVERLAYS, PIPELINE, PROFILE, SETTINGS
from omnicfg.commands._serving import checked_plan, checkpoint_of, config_of, default_model
from omnicfg.errors import OmnicfgError, ServeError, UsageError
from omnicfg.parser import Option
from omnicfg.streams import note

if TYPE_CHECKING:
    from omnicfg.serve.engines import Engine
    from omnicfg.serve.launch import Launch, Request

HELP = "Compile and check a profile, then start a server for it."


MODEL = Annotated[
    str | None,
    Option("--model", help="A checkpoint's directory, its id on the hub, or builtin:NAME; some pipelines have one."),
]
ENGINE = Annotated[
    str, Option("--engine", choices=("bundled", "vllm-omni"), help="omnicfg's own, or an installed vLLM-Omni.")
]
HOST = Annotated[str, Option("--host", help="The address to listen on.")]
PORT = Annotated[int, Option("--port", min=0, max=65535, help="The port to listen on; 0 takes a free one.")]
API_KEY = Annotated[str | None, Option("--api-key", envvar="OMNICFG_API_KEY", help="A key that clients have to send.")]
RESTART = Annotated[
    int, Option("--restart", metavar="N", min=0, max=1000, help="Start a server that dies again, so often in a row.")
]
HEADLESS = Annotated[
    bool, Option("--headless", help="Run this node's part of an engine for which another node answers.")
]
DRY_RUN = Annotated[bool, Option("--dry-run", help="Print what would be started, and start nothing.")]


def run(
    profile: PROFILE,
    model: MODEL = None,
    platform: ONE_PLATFORM = "cuda",
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    pipeline: PIPELINE = None,
    host: HOST = "127.0.0.1",
    port: PORT = 8091,
    engine: ENGINE = "bundled",
    api_key: API_KEY = None,
    restart: RESTART = 0,
    headless: HEADLESS = False,
    dry_run: DRY_RUN = False,
) -> int:
    """0 once it was stopped, 1 where the profile has errors; raises where nothing can be started or the server dies."""
    from omnicfg import models
    from omnicfg.compiler import check_platform
    from omnicfg.serve import engines, preflight
    from omnicfg.serve.launch import Request
    from omnicfg.serve.machine import this_machine
    from omnicfg.serve.ports import Claim, claimed

    check_platform(platform)
    _check_not_empty({"--host": host, "--api-key": api_key, "--model": model})
    _check_can_be_sent(api_key)
    chosen = engines.engine(engine)
    plan = checked_plan(profile, platform, overlays or [], settings or [], pipeline, model, engine)
    if plan is None:
        return 1
    reference = model or default_model(plan.pipeline)
    builtin = models.is_builtin(reference)
    checkpoint = str(models.location(reference)) if builtin else checkpoint_of(reference)
    name = reference.removeprefix(models.PREFIX)
    config = config_of(reference, checkpoint, plan)
    request = Request(plan, checkpoint, name, host, port, api_key, config, restart, headless)
    machine = this_machine()
    preflight.require(chosen.refusals(request))
    if dry_run:
        _print_launch(chosen.launch(request, machine))
        return 0
    with contextlib.nullcontext(Claim(port)) if headless else claimed(host, port) as claim:
        checks = [*chosen.problems(request, machine), *claim.problems]
        preflight.require(checks if builtin else [*checks, *preflight.model_problems(checkpoint)])
        if builtin:
            models.materialize(reference)
        request = replace(request, port=claim.port)
        launch = chosen.launch(request, machine)
        for text in launch.notices:
            _notice(text)
        launch.write_files()
        _start(chosen, launch, request, name)
    return 0


def _start(engine: Engine, launch: Launch, request: Request, name: str) -> None:
    """Starts it; of a server that ended because its port was taken meanwhile, that is told beside its end."""
    from omnicfg.serve.preflight import port_problems

    try:
        engine.start(launch, request, _ready(name), _notice)
    except ServeError as error:
        taken = [] if request.headless else list(port_problems(request.host, request.port))
        if taken:
            raise OmnicfgError([*error.diagnostics, *taken]) from error
        raise


def _check_not_empty(options: Mapping[str, str | None]) -> None:
    """An empty option is mostly a variable that was not set; a server without a key, say, is not what was asked for."""
    for name, value in options.items():
        if value is not None and not value.strip():
            raise UsageError(f"`{name}` is empty", "Give it a value, or leave it out.")


def _check_can_be_sent(key: str | None) -> None:
    """A key of which a header can hold every byte: no client could send another one."""
    if key is None or (key.strip() == key and all(" " <= letter <= "\xff" and letter != "\x7f" for letter in key)):
        return
    raise UsageError(
        "the API key cannot be sent in a header: it begins or ends with blanks, or has characters that are not Latin-1",
        "Take letters and digits; of a file from Windows, leave out the end of the line.",
    )


def _print_launch(launch: Launch) -> None:
    """The launch on standard output, what there is to know about it on standard error."""
    for text in launch.notices:
        _notice(text)
    print(launch.shell(), end="")


def _notice(text: str) -> None:
    note(f"omnicfg serve: {text}")


def _ready(name: str) -> Callable[[str], None]:
    """Says once where the server answers, and how long it took."""
    started = time.monotonic()

    def say(url: str) -> None:
        print(f"ready after {time.monotonic() - started:.0f} s: model {name} at {url}/v1", flush=True)

    return say
