"""``--engine vllm-omni``: the compiled deploy file handed to an installed vLLM-Omni, which replaces this process."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from omnicfg.cache import user_cache
from omnicfg.catalog.upstream import VLLM_OMNI, pipelines
from omnicfg.diagnostics import Diagnostic
from omnicfg.engine.front.api_key import VARIABLE as API_KEY_VARIABLE
from omnicfg.engine.front.api_key import KeyFirst
from omnicfg.errors import ServeError
from omnicfg.serve.asgi import option
from omnicfg.serve.deploy_file import deploy_yaml
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine
from omnicfg.serve.preflight import problem
from omnicfg.serve.supervise import Say


def refusals(request: Request) -> Iterator[Diagnostic]:
    """A pipeline that only omnicfg has; restarts of a process that is no child of ours."""
    if request.headless:
        yield problem("only the bundled engine has nodes that answer nobody", "Leave `--headless` out.")
    if request.restarts:
        yield problem("vLLM-Omni takes this process's place, so nobody could start it again", "Leave `--restart` out.")
    if pipelines()[request.plan.pipeline]["source"]["file"].startswith("profiles/"):
        yield problem(f"vLLM-Omni has no pipeline {request.plan.pipeline}", "Use `--engine bundled`.")


def problems(request: Request, machine: Machine) -> Iterator[Diagnostic]:
    """vLLM-Omni is not installed here, or is of another version than the profile was compiled for."""
    yield from version_problems(machine)


def version_problems(machine: Machine) -> Iterator[Diagnostic]:
    """The same, whatever is to be served."""
    if machine.vllm_omni is None:
        yield problem(
            "vLLM-Omni is not installed in this environment",
            f"`pip install vllm=={VLLM_OMNI} vllm-omni=={VLLM_OMNI}`",
        )
    elif machine.vllm_omni != VLLM_OMNI:
        yield problem(
            f"vLLM-Omni {machine.vllm_omni} is installed; profiles are compiled for {VLLM_OMNI}",
            f"`pip install vllm=={VLLM_OMNI} vllm-omni=={VLLM_OMNI}`",
        )


def launch(request: Request, machine: Machine) -> Launch:
    """``vllm serve MODEL --omni`` with one flat deploy file, kept in the user's cache under a name of its content.

    Where there is a key, it is asked for before anything else: vLLM makes the application, with its ``--middleware``,
    which vLLM-Omni leaves alone as it does ``--host`` (0.30.0, ``omni_run_server_worker``, ``_frontend_cli_fields``).
    vLLM's own check, which is for web sockets too, stands behind it.
    """
    text = deploy_yaml(request.plan)
    plan = request.plan
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = user_cache() / "deploy" / f"{Path(plan.profile).stem}-{plan.platform}-{digest}.yaml"
    command = (
        *_program(),
        "serve",
        request.model,
        "--omni",
        "--deploy-config",
        str(path),
        "--host",
        request.host,
        "--port",
        str(request.port),
    )
    env = {API_KEY_VARIABLE: request.api_key} if request.api_key else {}
    if {**os.environ, **env}.get(API_KEY_VARIABLE):
        command += tuple(option(KeyFirst))
    return Launch(command, env, {path: text})


def start(launch: Launch, request: Request, ready: Say, notice: Say) -> None:
    """Becomes vLLM-Omni; returns never."""
    notice("handing over to vLLM-Omni")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(launch.command[0], launch.command, launch.environment())
    except OSError as error:
        raise ServeError(f"`{launch.command[0]}` cannot be started: {error.strerror}") from error


def _program() -> tuple[str, ...]:
    """vLLM's command line, by the interpreter whose environment has been looked at: omnicfg can be imported there."""
    return (sys.executable, "-m", "vllm.entrypoints.cli.main")
