"""Lines as they may be shown: credentials are hidden, also where their key or flag stands on the line above."""

from __future__ import annotations

import pytest

from omnicfg.report.source import line_at


def shown(above: str, line: str) -> str:
    return "".join(text for _, _, text in line_at([above, line], 1).pieces)


@pytest.mark.parametrize(
    ("above", "line", "expected"),
    [
        ('command: ["serve", "--api-key",', '  "hunter2", "--max-num-seqs", "8"]', '  "***", "--max-num-seqs", "8"]'),
        ("vllm serve m --api-key \\", "  hunter2 --max-num-seqs 3", "  *** --max-num-seqs 3"),
        ("env: {HF_TOKEN:", '  "hunter2", max_num_seqs: 1}', "  ***, max_num_seqs: 1}"),
        ("env: {? hf_token", "  : hunter2, max_num_seqs: 1}", "  : ***, max_num_seqs: 1}"),
        ("- --api-key", "- hunter2", "- ***"),
        ("hf_token:", "  hunter2", "  ***"),
    ],
)
def test_a_credential_below_its_key_is_hidden_and_nothing_behind_it(above: str, line: str, expected: str) -> None:
    assert shown(above, line) == expected


@pytest.mark.parametrize(
    ("above", "line"),
    [
        ("hf_token: hunter2", "max_num_seqs: 3"),
        ("hf_token:", "max_num_seqs: 3"),
        ("vllm serve m --api-key hunter2 \\", "  --max-num-seqs 3"),
        ("env: {eos_token:", '  "x", b: 2}'),
    ],
)
def test_what_follows_a_credential_is_shown(above: str, line: str) -> None:
    assert shown(above, line) == line
