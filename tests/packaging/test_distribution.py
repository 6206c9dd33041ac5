"""What a release brings: an sdist and a wheel, the wheel alone in a new environment, and what it says of itself."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path

import pytest

from tests.docs.examples import ROOT

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]

_NOT_SHIPPED = ("benchmarks/", ".ci/", ".gitignore")
"""What is in the repository and in no sdist: measurements' raw results, and how this repository is kept."""


def tracked(*below: str) -> set[str]:
    """The files that git has, or would have, below some folders."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *below]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    return {name for name in os.fsdecode(listed).split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that is built out of it, from a copy of this tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    build(source, out)
    return out


def build(source: Path, out: Path, *options: str) -> None:
    command = [sys.executable, "-m", "build", "--outdir", str(out), *options, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    (found,) = built.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new environment with the wheel and what it requires, and nothing else; its folder of programs."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    command = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True, timeout=300)
    yield programs
    shutil.rmtree(folder)


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Runs the installed command in an empty folder, with nothing of this checkout on any path."""

    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
        command = [str(installed / "omnicfg"), *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


# ------------------------------------------------------------------------------------------------------- contents
def test_the_wheel_holds_the_package_the_profiles_and_the_schemas(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = tracked("omnicfg") | {f"omnicfg/_data/{name}" for name in tracked("profiles", "schemas")}
    assert held == expected


def test_the_sdist_holds_the_repository(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {member.name.partition("/")[2] for member in archive if member.isfile()}
    expected = {name for name in tracked() if not name.startswith(_NOT_SHIPPED)}
    assert held - {"PKG-INFO", ".gitignore"} == expected


def test_the_tree_and_the_sdist_give_the_same_wheel(built: Path, wheel: Path, sdist: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(sdist, tmp_path)
    (unpacked,) = tmp_path.iterdir()
    again = tmp_path / "again"
    build(unpacked, again, "--wheel")
    assert (again / wheel.name).read_bytes() == wheel.read_bytes()


# ------------------------------------------------------------------------------------------------------- metadata
@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_licence_is_an_spdx_expression_with_its_text(metadata: Message, wheel: Path) -> None:
    """https://packaging.python.org/en/latest/specifications/core-metadata/, from 2.4 on (PEP 639)."""
    major, minor = map(int, metadata["Metadata-Version"].split("."))
    assert (major, minor) >= (2, 4)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert not any(text.startswith("License ::") for text in metadata.get_all("Classifier", []))
    with zipfile.ZipFile(wheel) as archive:
        (text,) = [name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
        assert archive.read(text) == (ROOT / "LICENSE").read_bytes()


def test_each_extra_for_users_is_in_the_documentation(metadata: Message) -> None:
    extras = set(metadata.get_all("Provides-Extra", []))
    assert {"audio", "bench", "cpu", "cuda", "lsp", "policy"} <= extras
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
    named = {name for names in re.findall(r"omnicfg\[([a-z,]+)\]", pages) for name in names.split(",")}
    assert extras - {"dev", "docs", "test"} <= named <= extras


def test_the_addresses_are_those_that_findings_link_to(metadata: Message) -> None:
    from omnicfg.diagnostics import RULES_URL

    urls = dict(entry.split(", ", 1) for entry in metadata.get_all("Project-URL", []))
    assert RULES_URL.startswith(f"{urls['Repository']}/")
    assert all(url.startswith(urls["Repository"]) for url in urls.values())


def test_type_checkers_are_told_that_the_package_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "omnicfg/py.typed" in archive.namelist()


# ------------------------------------------------------------------------------------------------ the wheel alone
def test_nothing_comes_with_it_but_what_it_requires(installed: Path, metadata: Message) -> None:
    command = [str(installed / "python"), "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.partition("==")[0].lower().replace("_", "-") for line in listed.split()} - {"pip", "setuptools"}
    of_jsonschema = {"attrs", "jsonschema-specifications", "referencing", "rpds-py"}
    if sys.version_info < (3, 13):
        of_jsonschema.add("typing-extensions")
    assert names == {"jsonschema", *of_jsonschema, "omnicfg", "omegaconf", "pyyaml", "ruamel.yaml", "ruamel.yaml.clib"}


def test_it_resolves_every_shipped_profile(run: Run) -> None:
    shipped = sorted(Path(name).stem for name in tracked("profiles") if Path(name).parent.name == "profiles")
    listed = run("profiles").stdout
    for name in shipped:
        assert f"\n{name}" in f"\n{listed}"
        assert run("resolve", name, "--platform", "npu", "--explain").stdout


def test_it_validates(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    max_num_seq: 8\n")
    assert "OC101" in run("validate", "ours.yaml", code=1).stdout
    assert run("validate", "tiny-omni", "qwen3_tts").stdout == "No findings in 2 profiles.\n"


def test_it_diffs(run: Run) -> None:
    assert "use_v2_model_runner" in run("diff", "qwen3_tts", "qwen3_tts_v1", code=1).stdout
    assert "vllm 0.32.0 to 0.33.0" in run("diff", "--versions", "vllm", "0.32.0..0.33.0", "qwen3_tts", code=1).stdout


def test_it_compares_measurements_without_an_extra(run: Run) -> None:
    told = run("bench", "compare", str(ROOT / "docs/benchmarks/bench_qwen3_h200"), "h20").stdout
    assert "B: qwen3-omni, as published (H20)" in told


def test_it_writes_a_report(run: Run, tmp_path: Path) -> None:
    run("report", "qwen3_tts", "--out", "report.html")
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_it_says_what_it_would_serve_and_what_is_missing_for_it(run: Run) -> None:
    assert "vllm.entrypoints.openai.api_server" in run("serve", "tiny-omni", "--dry-run").stdout
    assert "omnicfg.serve.install_cpu" in run("serve", "tiny-omni", code=2).stderr


def test_it_prints_the_schemas_and_the_tables(run: Run) -> None:
    for words in (["schema"], ["matrix"], ["rules"], ["profiles"], ["completion", "bash"]):
        assert run(*words).stdout.strip()
