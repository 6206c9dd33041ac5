"""The recipe of the container: what its lines name exists, and it follows the rules that hadolint knows.

No image is built here: that needs a container engine, and its base from a registry. A workflow builds both variants.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.docs.examples import ROOT

FILE = ROOT / "Containerfile"
TEXT = FILE.read_text(encoding="utf-8")
LINES = re.sub(r"^#.*\n", "", TEXT, flags=re.M).replace("\\\n", "").splitlines()
STAGES = re.findall(r" AS (\w+)$", TEXT, flags=re.M)


def instructions(name: str) -> list[str]:
    return [line.removeprefix(f"{name} ") for line in LINES if line.startswith(f"{name} ")]


def test_a_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), str(FILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_copied_exists() -> None:
    for words in map(str.split, instructions("COPY")):
        if words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in STAGES
        else:
            assert [name for name in words[:-1] if not (ROOT / name).exists()] == []


def test_all_that_the_build_needs_is_copied() -> None:
    """What the build reads of the tree, the wheel's own contents and what its metadata is made from."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    project = settings["project"]
    needed = {*wheel["packages"], *wheel["force-include"], project["readme"], *project["license-files"]}
    copied = {name for words in map(str.split, instructions("COPY")) for name in words[:-1]}
    assert {*needed, "pyproject.toml"} <= copied


def test_what_pip_is_told_exists() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = set(settings["project"]["optional-dependencies"])
    copied = {Path(name).name for words in map(str.split, instructions("COPY")) for name in words[:-1]}
    asked = [words for line in instructions("RUN") for part in line.split("&&") for words in [shlex.split(part)]]
    installs = [words for words in asked if words[:1] == ["python"] and "wheel" not in words]
    assert len(installs) == 3
    for words in installs:
        assert Path(words[words.index("--constraint") + 1]).name in copied
        for extra in re.findall(r"omnicfg\[([\w,]+)\]", " ".join(words)):
            assert set(extra.split(",")) <= extras
        module = words[words.index("-m") + 1]
        assert module == "pip" or (ROOT / f"{module.replace('.', '/')}.py").is_file()


def test_bases_are_pinned() -> None:
    bases = [line.split()[0] for line in instructions("FROM")]
    assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases if base not in (*STAGES, "${VARIANT}"))


def test_each_variant_is_a_stage() -> None:
    assert {"cpu", "cuda"} <= set(STAGES)
    assert instructions("ARG") == ["VARIANT=cuda"]


def test_it_does_not_run_as_root() -> None:
    (user,) = instructions("USER")
    assert int(user) > 0


def test_its_health_is_asked_where_the_server_listens() -> None:
    from omnicfg.commands import serve
    from omnicfg.parser import parameters

    port = next(each.default for each in parameters(serve.run) if each.name == "port")
    (health,) = instructions("HEALTHCHECK")
    assert f"http://127.0.0.1:{port}/health" in health
    assert instructions("EXPOSE") == [str(port)]
