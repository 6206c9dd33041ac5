"""Hostile command lines: an answer at once, in findings or refusals."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from omnicfg.command_line.effect import effect
from omnicfg.command_line.find import of_file, of_text
from omnicfg.command_line.flags import catalog
from omnicfg.command_line.parse import parse
from omnicfg.compiler import deployed, load
from omnicfg.errors import OmnicfgError
from omnicfg.passes.override import apply_overrides
from tests.fuzz.harness import time_limit
from tests.fuzz.mutate import mutate

NASTY: Final = (
    "", "-", "--", "-1", "{", "{}", "[]", "null", "'", '"', "$X", "${", "$(x)", "`x`", "\\", "\x00", "9" * 5000, "nan",
    "1e999", '{"a":' * 80 + "1" + "}" * 80, '{"0":{"a.b":1}}', '{"0":{"":1}}', '{"99999999999":{"x":1}}', "=", "a=b",
    '{"1":{"parallel_config":3}}', '{"0":{"devices":null}}', "8K", "1.5K", "--omni", "-O3", "-O", "--x.y", "-a.b=1",
    "--compilation-config.mode", "--hf-overrides.a.b.c=1", "--hf-overrides.a=2", "|", ";", "\n", "#", ">", "<",
)  # fmt: skip


SCRIPTS: Final = {
    "arrays.sh": 'A=(m -tp "${T:-${U:-2}}")\ncat <<EOF\nit\'s $(x)\nEOF\neval \'vllm $B\' | vllm serve "$A"',
    "serve.sh": "M=a/b\nexport TP=2 X='y z'\nexec vllm serve \"$M\" --omni \\\n  -tp ${TP:-1} --port $P > log 2>&1 &\n",
    "Dockerfile": 'FROM x\nENV M=a TP=2\nENTRYPOINT ["vllm", "serve"]\nCMD ["a", "--omni", \\\n "-tp", "2"]\n',
    "compose.yaml": "services:\n  a:\n    entrypoint: [vllm, serve]\n    command: >\n      a --omni -tp 2\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_damaged_files_that_start_servers(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    for number in range(200):
        raw, story = mutate(SCRIPTS[name], rng)
        (tmp_path / name).write_bytes(raw)
        try:
            with time_limit():
                parse(of_file(tmp_path / name))
        except OmnicfgError:
            continue
        except Exception as error:  # noqa: BLE001  # that is what the test is about
            pytest.fail(f"mutant {number} ({', '.join(story)}): {type(error).__name__}: {error}\n{raw!r}")


@pytest.mark.parametrize("pipeline", ["qwen3_tts", "glm_image"])
def test_whatever_stands_behind_serve(pipeline: str) -> None:
    rng = random.Random(pipeline)
    options = [*catalog().by_option, "--stage-overrides", "--stage-overrides"]
    tree = deployed(load(pipeline), "cuda")
    for _ in range(600):
        words = [rng.choice((rng.choice(options), rng.choice(NASTY))) for _ in range(rng.randrange(1, 9))]
        text = "vllm serve m --omni " + " ".join(words)
        try:
            with time_limit():
                made = effect(parse(of_text(text)), pipeline)
                apply_overrides(tree, made.overrides)
        except OmnicfgError:
            continue
        except Exception as error:  # noqa: BLE001  # that is what the test is about
            pytest.fail(f"{text!r}: {type(error).__name__}: {error}")
