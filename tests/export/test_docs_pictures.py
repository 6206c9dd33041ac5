"""The pictures of the documentation: true to the code, and told in words to who cannot see them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import omnicfg
from omnicfg.export.docs_pictures import PASSES, paged_rows, passes, pictures
from omnicfg.registry import module_names
from tests.docs.examples import ROOT, blocks

SVG = "{http://www.w3.org/2000/svg}"
BESIDE_THE_LINE = {"pipeline", "effective"}  # finds out which pipeline it is; fills in vLLM's defaults on request


def texts(picture: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", sorted(pictures()))
def test_a_picture_has_a_title_and_a_description_and_fetches_nothing(name: str) -> None:
    picture = pictures()[name]
    root = ElementTree.fromstring(picture)
    described = {element.get("id"): element.text or "" for element in root if element.get("id")}
    assert root.get("role") == "img"
    assert [bool(described[name]) for name in (root.get("aria-labelledby") or "").split()] == [True, True]
    assert re.findall(r'(?:href|src)=|url\((?!#)|https?://(?!www\.w3\.org/2000/svg")', picture) == []


@pytest.mark.parametrize("name", sorted(pictures()))
def test_words_stay_inside_of_their_boxes(name: str) -> None:
    """With 0.57 of its height for a letter: wider than those of the fonts that browsers take."""
    root = ElementTree.fromstring(pictures()[name])
    width = float(root.attrib["width"])
    boxes = [
        [float(box.attrib.get(key, 0)) for key in ("x", "y", "width", "height")] for box in root.iter(f"{SVG}rect")
    ]
    for text in root.iter(f"{SVG}text"):
        kinds = text.attrib["class"].split()
        height = 12 if {"small", "code"} & set(kinds) else 13
        x, y, half = float(text.attrib["x"]), float(text.attrib["y"]), 0.285 * height * len("".join(text.itertext()))
        if "middle" in kinds:
            around = min((w for left, top, w, h in boxes if left < x < left + w and top < y < top + h), default=width)
            assert 2 * half <= around, text.text
        else:
            assert x + 2 * half <= width, text.text


def test_the_passes_are_those_of_the_compiler_in_its_order() -> None:
    names = [name for name, _does, _value in PASSES]
    assert set(names) | BESIDE_THE_LINE == set(module_names("omnicfg.passes"))
    assert [text for text in texts(passes()) if text in names] == names


def test_the_value_beside_the_passes_is_that_of_the_worked_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks((ROOT / "docs/how-resolution-works.md").read_text(encoding="utf-8")):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")

    def value(profile: str, platform: str, *overrides: str) -> object:
        stage = omnicfg.resolve(profile, platform=platform, overrides=overrides).stage(0)
        return stage and stage.arg("max_num_seqs")

    after = {name: words for name, _does, words in PASSES}
    base, profile = value("base.yaml", "cuda"), value("quiet.yaml", "cuda")
    npu, given = value("quiet.yaml", "npu"), value("quiet.yaml", "npu", "stages.0.max_num_seqs=8")
    assert after["read"] == (f"base.yaml: {base}", f"quiet.yaml: {profile}")
    assert after["inherit"] == (f"{profile} <lost>{base}",)
    assert after["platform"] == (f"npu: {npu} <lost>{profile}",)
    assert after["override"] == (f"{given} <lost>{npu}",)
    assert after["engine_args"] == (f"--max-num-seqs {given}",)


def test_both_requests_share_the_blocks_of_their_prefix() -> None:
    shown = texts(paged_rows())
    assert [shown.count(f"block {block}") for block in (7, 2, 9, 4)] == [3, 3, 2, 2]
    assert shown.count("hit") == 2
