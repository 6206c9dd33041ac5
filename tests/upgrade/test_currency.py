"""What a new release changes, as text: what it says is what the data of two releases say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnicfg.catalog.paths import load_json
from omnicfg.upgrade import currency
from omnicfg.upgrade.currency import main, report
from tests.docs.examples import ROOT

PAGES = sorted((ROOT / "docs" / "currency").glob("*.md"))
PARITY = ROOT / "tests" / "parity" / "releases"


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_committed_pages_are_made_from_the_data(page: Path) -> None:
    product, before, after = page.stem.rsplit("-", 2)
    parity = json.loads((PARITY / f"{product}-{after}.json").read_text(encoding="utf-8"))
    assert page.read_text(encoding="utf-8") == report(product, before, after, parity)


@pytest.mark.parametrize("path", sorted(PARITY.glob("*.json")), ids=lambda path: path.stem)
def test_a_release_agrees_with_omnicfg_wherever_it_was_asked(path: Path) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["answers"] == told["agreeing"] > 300


def test_new_pipelines_and_those_that_are_gone() -> None:
    text = report("vllm-omni", "0.28.0", "0.30.0")
    assert "| `pi05` | `Pi05Pipeline` | `diffusion` |" in section(text, "New pipelines")
    assert section(text, "Pipelines that are gone").strip().splitlines()[2:] == ["| `dots_tts` |", "| `dynin_omni` |"]
    back = report("vllm-omni", "0.30.0", "0.28.0")
    assert "| `pi05` |" in section(back, "Pipelines that are gone")


def test_keys_topologies_and_words() -> None:
    text = report("vllm-omni", "0.28.0", "0.30.0")
    assert "| `model_runner` | keys of a profile | `Literal['v1', 'v2']` | `v1` |" in section(text, "New keys")
    assert "| `mammoth_moda2` | 1 | `execution_type` | `llm_generation` | `diffusion` |" in section(
        text, "Changed topologies"
    )
    assert "| connectors | `NixlConnector` |  |" in section(text, "Words of the deploy language")
    assert "| `fps` | sampling parameters of diffusion stages | `int \\| None` | `float \\| None` |" in text


def test_of_two_mappings_only_what_differs_is_shown() -> None:
    rows = section(report("vllm-omni", "0.28.0", "0.30.0"), "Changed defaults")
    assert "| `model_loaded` | engine args of diffusion stages | `{}` | `{vae_encoder: true}` |" in rows


def test_args_of_vllm() -> None:
    text = report("vllm", "0.32.0", "0.33.0")
    changes = load_json("schemas/vllm/changes.json")["0.32.0..0.33.0"]
    assert section(text, "New args").count("\n| `") == len(changes["added"])
    assert section(text, "Removed args").strip() == "None."
    assert "| `mamba_cache_mode` | `none` | `null` |" in section(text, "Changed defaults")
    assert "`medusa`, `mlp_speculator`" in section(text, "Changed choices")


def test_what_it_means_for_the_shipped_profiles() -> None:
    assert "something changes for 10 of" in section(report("vllm-omni", "0.28.0", "0.30.0"), "The shipped profiles")


@pytest.mark.parametrize(
    ("parity", "said"),
    [
        (None, "The release's own loader has not been asked."),
        ({"agreeing": 5, "differing": {}, "differing_more": 0}, "5 of 5 answers are those of omnicfg."),
        ({"agreeing": 4, "differing": {"a.yaml.stages": 1}, "differing_more": 3}, "| `a.yaml.stages` | 1 |"),
        ({"agreeing": 4, "differing": {"a.yaml.stages": 1}, "differing_more": 3}, "And 3 other differences."),
    ],
)
def test_how_far_the_releases_loader_agrees(parity: dict[str, Any] | None, said: str) -> None:
    whole = parity and {"product": "vllm", "release": "9.9.9", "asked": "5 things", "answers": 5, **parity}
    assert said in currency._parity(whole)


def test_a_release_without_data_is_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vllm", "0.32.0..9.9.9"]) == 2
    assert "9.9.9 are not shipped" in capsys.readouterr().err
