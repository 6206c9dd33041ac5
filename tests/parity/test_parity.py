"""omnicfg resolves every deploy file as vllm-omni 0.30.0 does: all values, all types, and what is refused."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import omnicfg

from .answers import answer, differences
from .cases import Case, generate
from .traps import Trap, traps

pytestmark = pytest.mark.usefixtures("environment_allowed")

HERE: Final = Path(__file__).parent
PLATFORMS: Final = ("cuda", "npu", "rocm", "xpu", "musa")
FILES: Final = sorted(path.stem for path in (HERE / "expected").glob("*.json"))
CASES: Final = {case.name: case for case in generate()}
TRAPS: Final = {trap.name: trap for trap in traps()}

# Deliberate: what vllm-omni takes by accident of Python and omnicfg refuses. Name of the case → why.
STRICTER: Final = {
    "*-runtime-pairs": "dict() takes a list of pairs; nobody means one",
    "*-runtime-two-letters": "dict() takes a list of two-letter words; nobody means one",
    "*-runtime-empty-text": "dict() takes an empty text; nobody means one",
    "*-extras-pairs": "dict() takes a list of pairs; nobody means one",
    "*-pooling-pairs": "dict() takes a list of pairs; nobody means one",
    "*-connectors-pairs": "dict() takes a list of pairs; nobody means one",
    "*-connectors-two-letters": "dict() takes a list of two-letter words; nobody means one",
    "platform-*nested-pairs": "dict() takes a list of pairs; nobody means one",
    "platform-*nested-two-letters": "dict() takes a list of two-letter words; nobody means one",
    "platform-*flat-extras-list": "dict.update() takes an empty list; nobody means one",
    "stage-*sampling-stop-text": "the characters of a text are taken for token ids",
    "stage-*sampling-stop-map": "the keys of a mapping are taken for token ids",
    "stage-*flat-odd-keys": "an engine arg whose name is no text fails when the engine starts",
    "stage-*devices-comma-in-flow": "`{devices: 0,1}` is devices 0 and a key 1, which is no name of an engine arg",
    "platform-*flat-dunder*": "a Python attribute of vllm-omni's own class would be overwritten",
    "stage-text-empty": "an empty text passes for an empty list",
    "document-scalar": "a document of one word is taken for a key without a value",
    "document-key-only": "a document of one word is taken for a key without a value",
    "chain-base-suffix": "a base that is no .yaml, .yml or .json file is not read: the profile may be a stranger's",
    "chain-base-text": "a document of one word is taken for a key without a value",
    "scalar-tag-binary": "bytes mean nothing in a profile",
    "scalar-tag-omap": "ordered pairs mean nothing in a profile",
    "scalar-tag-pairs": "pairs mean nothing in a profile",
    "document-bytes-key": "bytes mean nothing in a profile",
}


def by_platform(cells: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Platform → what vllm-omni says; its wording of a refusal is left out."""
    kept = ("ok", "deploy", "stages")
    return {name: {key: cell[key] for key in kept if key in cell} for cell in cells for name in cell["platforms"]}


@cache
def expected_cases() -> dict[str, Any]:
    """``expected_cases.json.gz``."""
    content: dict[str, Any] = json.loads(gzip.decompress((HERE / "expected_cases.json.gz").read_bytes()))
    return content


@cache
def expected_traps() -> dict[str, Any]:
    """``expected_traps.json``."""
    content: dict[str, Any] = json.loads((HERE / "expected_traps.json").read_text(encoding="utf-8"))
    return content


def expected_file(stem: str) -> dict[str, Any]:
    """What vllm-omni makes of a shipped file."""
    content: dict[str, Any] = json.loads((HERE / "expected" / f"{stem}.json").read_text(encoding="utf-8"))
    return content


# ------------------------------------------------------------------------------------------------ shipped files
def test_every_shipped_file_has_expected_values_on_every_platform(upstream_deploy: Path) -> None:
    assert sorted(path.stem for path in upstream_deploy.glob("*.yaml")) == FILES
    cells = {(stem, platform) for stem in FILES for platform in by_platform(expected_file(stem)["cells"])}
    assert cells == {(stem, platform) for stem in FILES for platform in PLATFORMS}
    assert len(cells) == 110 * 5


@pytest.mark.parametrize("stem", FILES)
def test_a_shipped_file_resolves_as_upstream_does(stem: str, upstream_deploy: Path) -> None:
    expected = expected_file(stem)
    asked = expected["pipeline"] if expected["told"] else None
    for platform, theirs in by_platform(expected["cells"]).items():
        ours = answer(upstream_deploy / f"{stem}.yaml", platform, asked)
        assert differences(ours, theirs, platform) == []


@pytest.mark.parametrize("stem", FILES)
def test_a_shipped_file_finds_its_pipeline(stem: str, upstream_deploy: Path) -> None:
    expected = expected_file(stem)
    profile = str(upstream_deploy / f"{stem}.yaml")
    if expected["told"]:
        with pytest.raises(omnicfg.OmnicfgError):
            omnicfg.resolve(profile)
    else:
        assert omnicfg.resolve(profile).to_dict()["pipeline"] == expected["pipeline"]


# ----------------------------------------------------------------------------------------------- overlay chains
def test_the_cases_are_those_that_upstream_was_asked_about() -> None:
    expected = expected_cases()
    assert list(CASES) == list(expected)
    changed = [name for name, case in CASES.items() if case.digest != expected[name]["digest"]]
    assert changed == [], "run `python -m tests.parity.oracle cases` where vllm-omni is installed"


@pytest.mark.parametrize("name", CASES)
def test_an_overlay_chain_resolves_as_upstream_does(name: str, tmp_path: Path, upstream_deploy: Path) -> None:
    case: Case = CASES[name]
    path = case.write(tmp_path, upstream_deploy)
    for platform, theirs in by_platform(expected_cases()[name]["cells"]).items():
        ours = answer(path, platform, case.pipeline)
        if is_stricter(name) and not ours["ok"]:
            continue
        assert differences(ours, theirs, platform) == []


def is_stricter(name: str) -> bool:
    """Whether omnicfg may refuse this case although vllm-omni takes it."""
    return any(fnmatch(name, pattern) for pattern in STRICTER)


@pytest.mark.parametrize("pattern", STRICTER)
def test_a_deliberate_difference_is_one(pattern: str, tmp_path: Path, upstream_deploy: Path) -> None:
    names = [name for name in CASES if fnmatch(name, pattern)]
    assert any(_refused_though_taken(CASES[name], tmp_path, upstream_deploy) for name in names)


def _refused_though_taken(case: Case, folder: Path, deploy: Path) -> bool:
    path = case.write(folder, deploy)
    cells: Mapping[str, Any] = by_platform(expected_cases()[case.name]["cells"])
    return any(theirs["ok"] and not answer(path, platform, case.pipeline)["ok"] for platform, theirs in cells.items())


# -------------------------------------------------------------------------------------------------------- traps
def test_there_are_69_traps() -> None:
    assert list(TRAPS) == list(expected_traps())
    assert len(TRAPS) == 69


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_resolves_as_upstream_does(name: str) -> None:
    trap: Trap = TRAPS[name]
    for platform, theirs in by_platform(expected_traps()[name]["cells"]).items():
        assert differences(answer(trap.path, platform, trap.pipeline), theirs, platform) == []


# The overrides of these mean the same to both; the others are taken by vllm-omni's command line for what they are not
# (an unknown stage, a global setting that the order of options decides).
SAME_OVERRIDES: Final = ("F6_global_beats_stage_yaml", "F8_cli_vs_platform", "F10_cli_devices_replicas")


@pytest.mark.parametrize("name", SAME_OVERRIDES)
def test_an_override_wins_as_upstreams_command_line_does(name: str) -> None:
    trap: Trap = TRAPS[name]
    overrides = {re.sub(r"^stage_(\d+)_", r"stages.\1.", key): value for key, value in trap.cli.items()}
    for cell in expected_traps()[name]["with_cli"]:
        for platform in cell["platforms"]:
            plan = omnicfg.resolve(str(trap.path), platform=platform, pipeline=trap.pipeline, overrides=overrides)
            for ours, theirs in zip(plan.to_dict()["stages"], cell["stages"], strict=True):
                for key in (override.rpartition(".")[2] for override in overrides):
                    block = "runtime" if key in {"devices", "num_replicas"} else "engine_args"
                    assert ours[block].get(key) == theirs[block].get(key), (platform, ours["stage_id"], key)
