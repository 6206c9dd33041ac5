"""Real profiles after slips that can be mended: what a fix is offered for it mends, and the rest stays as it was."""

from __future__ import annotations

import random
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

import omnicfg
from omnicfg.buffers import Buffers
from omnicfg.fixes.fix import Mender
from tests.fuzz.mutate import mutate

BLOCK = 25
BLOCKS = 8
_PAIR = re.compile(r"^(?P<lead>\s*(?:- )?)(?P<key>[a-z_]{6,}):(?P<gap> +)(?P<value>[\w.]+)(?P<rest>\s*(?:#.*)?)$")


def slip(text: str, rng: random.Random) -> str:
    """The text with one to four slips in lines of the form `key: value`, and with the line ends of Windows at times."""
    lines = text.split("\n")
    pairs = [index for index, line in enumerate(lines) if _PAIR.match(line)]
    for index in rng.sample(pairs, min(len(pairs), rng.randint(1, 4))):
        found = _PAIR.match(lines[index])
        assert found is not None
        lead, key, gap, value, rest = found.groups()
        at = rng.randrange(1, len(key) - 1)
        lines[index] = rng.choice(
            [
                f"{lead}{key[:at]}{key[at + 1 :]}:{gap}{value}{rest}",
                f"{lead}{key[:at]}{key[at + 1]}{key[at]}{key[at + 2 :]}:{gap}{value}{rest}",
                f"{lead}{key.replace('_', '-')}:{gap}{value}{rest}",
                f'{lead}"{key}":{gap}"{value}"{rest}',
                f"{lead}{key}:{gap}'{value}'{rest}",
                f"{lead}{key}:{gap}{value}{rest}\n{' ' * len(lead)}of_no_use: {{a: [1], b: x}}",
                f"{lead}{key}:{gap}{value}{rest}\n{' ' * len(lead)}of_no_use: |\n{' ' * len(lead)}  # text\n\n",
            ]
        )
    return "\n".join(lines).replace("\n", rng.choice(["\n", "\n", "\r\n"]))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_slips(upstream_deploy: Path, tmp_path: Path, block: int) -> None:
    files = sorted(upstream_deploy.glob("*.yaml"))
    folder = Path(shutil.copytree(upstream_deploy, tmp_path / "deploy"))
    mended = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(f"fix {seed}")
        original = files[seed % len(files)]
        text = slip(original.read_text(encoding="utf-8"), rng)
        path = folder / original.name
        path.write_bytes(text.encode() if rng.random() < 0.7 else mutate(text, rng)[0])
        mender = Mender(partial(omnicfg.validate, path, platform="cuda"), [path], seed % 3 == 0, Buffers())
        with mender.buffers:
            mender.run()
        assert mender.refused == set(), f"seed {seed}: {path.name}"
        mended += mender.mended
        shutil.copy(original, path)
    assert mended > BLOCK // 2
