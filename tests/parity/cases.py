"""Overlay chains over the shipped deploy files: some written by hand, most drawn from a seed.

A case is a folder: copies of the shipped files that it needs, one to three overlays that name each other as
``base_config``, and the pipeline. Nothing here imports vllm-omni, so the same folders can be made again at test time
from the seed and the shipped files alone; ``oracle.py`` keeps what vllm-omni makes of them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from .draw import Drawer
from .written_cases import WRITTEN
from .yaml_text import block

SEED: Final = 20261129
DRAWN: Final = 440
EXPECTED: Final = Path(__file__).parent / "expected"


@dataclass(frozen=True, slots=True)
class Shipped:
    """A shipped deploy file as the expected data describes it."""

    name: str
    pipeline: str
    stages: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A profile to resolve, and the files it takes."""

    name: str
    pipeline: str
    base: str | None
    """The shipped file that lies beside the texts, with the files that it inherits from."""
    texts: Mapping[str, str]
    """File name → text; the last one is the profile."""

    @property
    def digest(self) -> str:
        """Tells whether a case is still the one that vllm-omni was asked about."""
        return hashlib.sha256(json.dumps([self.pipeline, self.base, self.texts]).encode()).hexdigest()[:16]

    def write(self, folder: Path, deploy_folder: Path) -> Path:
        """Make the case's folder below ``folder``; gives the path of the profile."""
        home = folder / self.name
        home.mkdir()
        for path in () if self.base is None else _with_bases(deploy_folder / self.base):
            shutil.copyfile(path, home / path.name)
        for name, text in self.texts.items():
            path = home / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
        return home / list(self.texts)[-1]


def generate() -> Iterator[Case]:
    """Every case, always the same ones."""
    shipped = {file.name: file for file in _shipped()}
    for name, (base, texts) in WRITTEN.items():
        yield Case(name, shipped[base or "qwen3_tts.yaml"].pipeline, base, texts)
    for number in range(DRAWN):
        yield _drawn(number, list(shipped.values()))


def _shipped() -> Iterator[Shipped]:
    for path in sorted(EXPECTED.glob("*.json")):
        expected = json.loads(path.read_text(encoding="utf-8"))
        yield Shipped(f"{path.stem}.yaml", expected["pipeline"], tuple(expected["cells"][0]["stages"]))


def _drawn(number: int, shipped: Sequence[Shipped]) -> Case:
    random = Random(f"{SEED}/{number}")
    file = random.choice(shipped)
    drawer = Drawer(random, file.stages, wild=number % 4 == 3)
    texts: dict[str, str] = {}
    base = file.name
    for level in range(random.choice((1, 1, 2, 2, 3))):
        document = drawer.overlay(base)
        base = f"overlay{level}.yaml"
        texts[base] = block(document, flow_below=random.choice((1, 2, 3, 4, 9)))
    return Case(f"drawn-{number:03}", file.pipeline, file.name, texts)


def _with_bases(path: Path) -> Iterator[Path]:
    yield path
    found = re.search(r"^base_config:\s*(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    if found:
        yield from _with_bases(path.parent / found[1])
