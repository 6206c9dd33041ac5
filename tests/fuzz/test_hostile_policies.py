"""Policy files and expressions that nobody meant to write: an answer at a place of the file, never a traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import omnicfg
from omnicfg.errors import OmnicfgError
from omnicfg.policy.evaluate import Policies
from omnicfg.policy.file import PolicyError, read_policies
from tests.fuzz.harness import time_limit
from tests.fuzz.mutate import mutate
from tests.policy.test_file import FULL

WORDS = (
    "stages",
    "stage",
    "deploy",
    "platform",
    "profile",
    "pipeline",
    ".exists(",
    ".all(",
    ".map(",
    ".filter(",
    "s,",
    "s",
    ".engine_args",
    ".effective",
    ".runtime",
    ".max_num_seqs",
    ".model_arch",
    "has(",
    "size(",
    "string(",
    "int(",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'cuda'",
    '"x"',
    "''",
    "0",
    "1",
    "-1",
    "0.9",
    "1u",
    "9223372036854775807",
    "1e308",
    "true",
    "false",
    "null",
    "==",
    "!=",
    ">",
    "<=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&&",
    "||",
    "!",
    "in",
    "?",
    ":",
    ",",
    ".",
    "//",
    "\n",
    "'''",
    "r'\\'",
    "b'x'",
    "\u4e2d",
    "\ud800",
    "\x00",
    "timestamp(",
    "duration('1s')",
    ".matches('(a+)+$')",
    "type(",
    "and",
    "dyn(",
    "[0]",
    ".x",
    ".orValue(1)",
    "`a`",
    "\u202e",
    "$",
    "\\",
)
USEFUL = (
    "stages.exists(s, s.engine_args.max_num_seqs {} 8)",
    "stage.runtime.num_replicas {} 2",
    "deploy.async_chunk {} true",
    "stages.all(s, has(s.engine_args.seed) || s.stage_id {} 1)",
    "stages.map(s, s.stage_id)[0] {} 0",
    "platform {} 'npu'",
)


def expressions(count: int, seed: str) -> list[str]:
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        if rng.random() < 0.4:
            made.append(rng.choice(USEFUL).format(rng.choice(("==", "!=", ">", "<", "in", "+", "&&"))))
        else:
            made.append(" ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 12))))
    return made


def test_mutated_policy_files(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    for seed in range(400):
        rng = random.Random(f"policy {seed}")
        content, changes = mutate(FULL, rng)
        path.write_bytes(content)
        try:
            with time_limit():
                read_policies([path])
        except OmnicfgError as error:
            for diagnostic in error.diagnostics:
                assert diagnostic.path == str(path), f"{seed}: {changes}"
                assert diagnostic.message, f"{seed}: {changes}"


def test_expressions_of_any_words(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    plan = omnicfg.resolve("qwen3_tts")
    made = [each for each in expressions(450, "words") if each.strip() and "\ud800" not in each]
    broken: set[int] = set()
    for _ in range(3):  # what the reader refuses, what does not compile, the rest
        kept = [position for position in range(len(made)) if position not in broken]
        lines = [f"  - {{id: T{each}, message: m, deny: {json.dumps(made[each])}}}\n" for each in kept]
        path.write_text("policies:\n" + "".join(lines))
        try:
            with time_limit(), Policies([path]) as policies:
                outcomes = policies.outcomes(plan, "0.32.0")
        except PolicyError as error:
            for diagnostic in error.diagnostics:
                assert 2 <= diagnostic.line <= len(lines) + 1
                assert diagnostic.column > 1
                assert diagnostic.message
                broken.add(kept[diagnostic.line - 2])
            continue
        assert len(outcomes) > 20
        assert all(outcome.diagnostic.message for outcome in outcomes)
        return
    raise AssertionError("a policy that was left out of the complaints is still wrong")
