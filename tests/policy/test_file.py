"""Policy files: what may stand in them, and what is said of what may not."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from omnicfg.catalog.library import library
from omnicfg.catalog.paths import schemas_dir
from omnicfg.compiler import resolve
from omnicfg.diagnostics import Severity
from omnicfg.passes.read import read_text
from omnicfg.policy.file import PolicyError, known_names, read_policies
from omnicfg.tree import Layer, LayerKind, plain
from tests.conftest import WriteProfile

FULL = """\
policies:
  - id: TEAM-1
    name: memory-headroom
    message: leave a tenth of the memory free
    help: Set 0.9 at most.
    severity: warning
    platforms: [cuda, rocm]
    deny: stage.engine_args.gpu_memory_utilization > 0.9
    examples:
      pass:
        - qwen3_tts
        - {profile: qwen3_tts, platform: rocm, set: {stages.0.max_num_seqs: 1}}
      fail:
        - |
          pipeline: qwen3_tts
          async_chunk: false
  - {id: TEAM-2, message: m, require: "true", platforms: npu}
"""


def test_everything_a_policy_can_say(profile_file: WriteProfile) -> None:
    first, second = read_policies([profile_file(FULL, "p.yaml")])
    assert (first.id, first.name, first.severity, first.help) == (
        "TEAM-1",
        "memory-headroom",
        Severity.WARNING,
        "Set 0.9 at most.",
    )
    assert (first.platforms, first.denies) == (("cuda", "rocm"), True)
    assert [(each.expected, each.platform, each.is_inline) for each in first.examples] == [
        ("pass", "cuda", False),
        ("pass", "rocm", False),
        ("fail", "cuda", True),
    ]
    assert (second.name, second.severity, second.platforms, second.denies) == (
        "policy",
        Severity.ERROR,
        ("npu",),
        False,
    )


WRONG = {
    "policies: 1": (1, 11, "`policies` is a list"),
    "policy: []": (1, 1, "has no key `policy`"),
    "- a": (1, 1, "a policy file is a mapping"),
    "policies: [1]": (1, 12, "a policy is a mapping"),
    "policies: [{message: m, deny: 'true'}]": (1, 12, "`id` is missing"),
    "policies: [{id: A, deny: 'true'}]": (1, 12, "`message` is missing"),
    "policies: [{id: A, message: '', deny: 'true'}]": (1, 29, "`message` is empty"),
    "policies: [{id: a, message: m, deny: 'true'}]": (1, 17, "`a` cannot be the id"),
    "policies: [{id: OC101, message: m, deny: 'true'}]": (1, 17, "`OC101` cannot be the id"),
    "policies: [{id: A, name: A B, message: m, deny: 'true'}]": (1, 26, "cannot be the name"),
    "policies: [{id: A, message: m}]": (1, 12, "one expression, not none"),
    "policies: [{id: A, message: m, deny: 'true', require: 'true'}]": (1, 12, "one expression, not 2"),
    "policies: [{id: A, message: m, deny: true}]": (1, 38, "an expression is text"),
    "policies: [{id: A, message: m, deny: ' '}]": (1, 38, "the expression is empty"),
    "policies: [{id: A, message: m, when: 'true'}]": (1, 32, "has no key `when`"),
    "policies: [{id: A, message: m, deny: 'true', severity: bad}]": (1, 56, "`bad` is none"),
    "policies: [{id: A, message: m, deny: 'true', platforms: []}]": (1, 57, "never applies"),
    "policies: [{id: A, message: m, deny: 'true', platforms: [gpu]}]": (1, 58, "`gpu` is none"),
    "policies: [{id: A, message: m, deny: 'true', examples: []}]": (1, 56, "`examples` is a mapping"),
    "policies: [{id: A, message: m, deny: 'true', examples: {pass: x}}]": (1, 63, "`pass` is a list"),
    "policies: [{id: A, message: m, deny: 'true', examples: {pass: [1]}}]": (1, 64, "an example is a profile"),
    "policies: [{id: A, message: m, deny: 'true', examples: {ok: [x]}}]": (1, 57, "has no key `ok`"),
    "policies: [{id: A, message: m, deny: 'true'}, {id: A, message: m, deny: 'true'}]": (1, 52, "is already at"),
    "policies: [{id: A, message: m, deny: 's.engine_args.max_num_seq > 1'}]": (1, 53, "no engine arg is called"),
    "policies: [{id: A, message: m, deny: 'has(stage.engine_args.devices)'}]": (1, 61, "`devices` is no engine arg"),
    "policies: [{id: A, message: m, deny: 'has(stage.runtime.device)'}]": (1, 57, "`runtime` has no `device`"),
    "policies: [{id: A, message: m, deny: 'has(stage.runtime.dtype)'}]": (1, 57, "`runtime` has no `dtype`"),
    "policies: [{id: A, message: m, deny: 'has(deploy.async_chunks)'}]": (1, 50, "`deploy` has no `async_chunks`"),
    "policies: [": (1, 12, ""),
}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"), [(text, *told) for text, told in WRONG.items()], ids=list(WRONG)
)
def test_what_is_wrong_is_told_at_its_place(
    profile_file: WriteProfile, text: str, line: int, column: int, words: str
) -> None:
    path = profile_file(text + "\n", "p.yaml")
    with pytest.raises(PolicyError) as caught:
        read_policies([path])
    (told,) = caught.value.diagnostics
    assert (told.path, told.line, told.column) == (str(path), line, column)
    assert words in told.message


def test_everything_that_is_wrong_is_told_at_once(profile_file: WriteProfile) -> None:
    path = profile_file("policies:\n  - {id: a, message: m, deny: 'true'}\n  - {id: B, deny: 'true'}\n", "p.yaml")
    with pytest.raises(PolicyError) as caught:
        read_policies([path, path.with_name("missing.yaml")])
    assert [told.line for told in caught.value.diagnostics] == [2, 3, 0]


def test_the_schema_takes_what_the_reader_takes_and_refuses_the_rest() -> None:
    schema = json.loads((schemas_dir() / "policy.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    jsonschema.Draft202012Validator.check_schema(schema)

    def parsed(text: str) -> object:
        return plain(read_text(text, Layer(LayerKind.PROFILE), "p.yaml"))

    assert list(validator.iter_errors(parsed(FULL))) == []
    names = ("no engine arg is called", "`devices` is no engine arg", "`runtime` has no", "`deploy` has no")
    beyond_a_schema = ("is already at", *names, "a policy file is a mapping")
    for text, (_, _, words) in WRONG.items():
        if words and not words.startswith(beyond_a_schema):
            assert not validator.is_valid(parsed(text)), text


def test_every_engine_arg_of_the_shipped_profiles_can_be_named(tmp_path: Path) -> None:
    given = {name for profile in library() for stage in resolve(profile).stages for name in stage.engine_args.items}
    text = "policies: [{id: A, message: m, deny: 's.engine_args.%s == 1'}]\n"
    for name in sorted(map(str, given - known_names())):
        (tmp_path / "p.yaml").write_text(text % name)
        assert len(read_policies([tmp_path / "p.yaml"])) == 1
