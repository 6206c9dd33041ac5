"""What counts as a credential, and what is shown in its place."""

from __future__ import annotations

from typing import Any

import pytest

from omnicfg.secrets import looks_secret, redacted, redacted_setting, secret_spans
from tests.patience import in_cpu_s


@pytest.mark.parametrize(
    "key",
    ["hf_token", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "api_key", "apiKey", "OPENAI_API_KEY", "password", "DB_PASSWD",
     "AWS_SECRET_ACCESS_KEY", "client_secret", "private_key", "credentials", "token", "basic_auth", "api_keys"],
)  # fmt: skip
def test_credentials(key: str) -> None:
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key",
    ["max_tokens", "stop_token_ids", "tokenizer", "eos_token", "image_token", "max_num_batched_tokens", "keys", "key",
     "stage_input_payload_keys", "skip_special_tokens", "max_token", "monkey", "author", "kv_key", "", 0, None],
)  # fmt: skip
def test_what_is_none(key: object) -> None:
    assert not looks_secret(key)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("hf_token", "abc", "***"),
        ("hf_token", 123, "***"),
        ("hf_token", True, True),
        ("hf_token", None, None),
        ("env", {"HF_TOKEN": "abc", "X": "1"}, {"HF_TOKEN": "***", "X": "1"}),
        ("credentials", {"user": "a", "more": ["b"]}, {"user": "***", "more": ["***"]}),
        ("stages", [{"env": {"API_KEY": "abc"}}], [{"env": {"API_KEY": "***"}}]),
        ("url", "redis://me:pw@host/0", "redis://***@host/0"),
        ("url", "git+https://hf_abc@host/path", "git+https://***@host/path"),
        ("url", "https://host/path@x", "https://host/path@x"),
        ("note", f"the key hf_{'a1B2' * 9}, not ours", "the key ***, not ours"),
        (
            "args",
            ["ghp_" + "a1" * 18, "sk-" + "x1" * 12, "sk-proj-" + "x1" * 12 + "_-z", "AKIA" + "A1" * 8],
            ["***"] * 4,
        ),
        ("name", "hf_overrides gh-pages sk-learn hf_transfer", "hf_overrides gh-pages sk-learn hf_transfer"),
    ],
)
def test_redacted(key: str, value: Any, shown: Any) -> None:
    assert redacted(key, value) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("stages.0.hf_token=abc", "stages.0.hf_token=***"),
        ("stages.0.env={HF_TOKEN: abc}", "stages.0.env={HF_TOKEN: ***}"),
        ("stages.0.max_num_seqs=8", "stages.0.max_num_seqs=8"),
        ("async_chunk", "async_chunk"),
    ],
)
def test_redacted_setting(text: str, shown: str) -> None:
    assert redacted_setting(text) == shown


def test_spans_are_in_order_and_apart() -> None:
    line = "{api_key: redis://me:pw@host, token: x}"
    spans = secret_spans(line)
    assert [line[start:end] for start, end in spans] == ["redis://me:pw@host", "x"]


def test_a_long_line_takes_no_longer_than_it_must() -> None:
    line = "{" + "token: {a: 1}, " * 20_000 + "}"
    assert in_cpu_s(5, lambda: secret_spans(line))
