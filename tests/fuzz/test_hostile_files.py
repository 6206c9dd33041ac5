"""Files made to hurt: each is answered at once, with a diagnostic that says where."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import ResolveError, UsageError
from omnicfg.refusals import REFUSALS
from tests.conftest import WriteProfile
from tests.fuzz.harness import time_limit
from tests.patience import in_cpu_s

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
STAGE = HEAD + "stages:\n  - stage_id: 0\n"
SECONDS = 3.0


def only(profile: Path) -> Diagnostic:
    """The one reason for which a profile is refused; `validate` gives it too, before others of its kind."""
    with time_limit():
        refused, found = in_cpu_s(SECONDS, lambda: (refusals(profile), omnicfg.validate(profile)))
    (reason,) = refused
    assert [(one.code, one.line, one.column) for one in found if one.name in REFUSALS][:1] == [
        (reason.code, reason.line, reason.column)
    ]
    return reason


def refusals(profile: Path) -> tuple[Diagnostic, ...]:
    with pytest.raises(ResolveError) as refused:
        omnicfg.resolve(profile)
    return refused.value.diagnostics


def summary(reason: Diagnostic) -> tuple[str, int, int]:
    return reason.name, reason.line, reason.column


def chain(links: int, link: str, first: str) -> str:
    """``a0`` to ``aN``, each made from the one before it."""
    return f"a0: {first}\n" + "".join(f"a{n + 1}: {link.format(n=n, m=n + 1)}\n" for n in range(links))


TENFOLD = ", ".join(["*a{n}"] * 10)

YAML = {
    # name: (text, name of the refusal, line, column)
    "aliases that expand a million fold": (chain(9, f"&a{{m}} [{TENFOLD}]", "&a0 [x]"), "too-large", 7, 30),
    "merges that expand": (chain(9, f"&a{{m}} {{{{<<: [{TENFOLD}], k: *a{{n}}}}}}", "&a0 {k: 1}"), "too-large", 7, 25),
    "an alias to the mapping it stands in": ("a: &a {b: *a}\n", "unsupported-yaml", 3, 11),
    "an alias to nothing": ("a: *b\n", "yaml-syntax", 3, 4),
    "brackets a hundred thousand deep": ("a: " + "[" * 100_000 + "\n", "too-large", 3, 67),
    "keys a thousand deep": ("".join(" " * n + "a:\n" for n in range(1000)), "too-large", 67, 65),
    "dashes without an end": ("a:\n " + "- " * 5000 + "\n", "too-large", 4, 128),
    "question marks without an end": ("? " * 5000 + "\n", "too-large", 3, 129),
    "more values than a profile may have": ("a: [" + "x, " * 20_000 + "x]\n", "too-large", 3, 30002),
    "more keys than a profile may have": ("".join(f"a{n}: 1\n" for n in range(9000)), "too-large", 5000, 8),
    "a key of a megabyte": ("a" * 900_000 + ": 1\n", "yaml-syntax", 3, 900_001),
    "a pipeline of a megabyte": ("model_runner: " + "a" * 900_000 + "\n", "bad-model-runner", 3, 15),
    "a hundred thousand documents": ("---\n" * 100_000, "yaml-syntax", 3, 1),
    "a tab for indentation": ("a:\n\tb: 1\n", "yaml-syntax", 4, 1),
    "a null character": ('a: "\0"\n', "yaml-syntax", 3, 5),
    "an escape character": ("a: b\x1b[31m\n", "yaml-syntax", 3, 5),
    "an escaped surrogate": ('a: "\\ud800"\n', "yaml-syntax", 3, 4),
    "a decimal number of a megabyte": ("a: " + "1" * 900_000 + "\n", "bad-value", 3, 4),
    "a hexadecimal number of a megabyte": ("a: 0x" + "f" * 900_000 + "\n", "bad-value", 3, 4),
    "a time of a megabyte": ("a: 1" + ":59" * 300_000 + "\n", "bad-value", 3, 4),
    "a tag that would run a command": ("a: !!python/object/apply:os.system [id]\n", "unsupported-yaml", 3, 4),
    "a tag of its own": ("a: !own 1\n", "unsupported-yaml", 3, 4),
    "a list as key": ("? [a, b]\n: 1\n", "unsupported-yaml", 3, 3),
    "a null key": ("null: 1\n", "unsupported-yaml", 3, 1),
    "a duplicate key": ("async_chunk: true\n", "duplicate-key", 3, 1),
    "an unclosed bracket": ("a: [1\n", "yaml-syntax", 3, 6),
    "an unclosed quote": ('a: "x\n', "yaml-syntax", 3, 4),
}  # fmt: skip


@pytest.mark.parametrize(("text", "name", "line", "column"), YAML.values(), ids=YAML)
def test_hostile_yaml(profile_file: WriteProfile, text: str, name: str, line: int, column: int) -> None:
    assert summary(only(profile_file(HEAD + text))) == (name, line, column)


EXPRESSIONS = {
    "lists that expand": chain(9, "[" + ", ".join(["'${{a{n}}}'"] * 10) + "]", "[x]"),
    "lists that expand, written backwards": "".join(
        reversed(chain(9, "[" + ", ".join(["'${{a{n}}}'"] * 10) + "]", "[x]").splitlines(keepends=True))
    ),
    "text that doubles": chain(40, "'${{a{n}}}${{a{n}}}'", "x"),
    "text that doubles, written backwards": "".join(
        reversed(chain(40, "'${{a{n}}}${{a{n}}}'", "x").splitlines(keepends=True))
    ),
    "depth that adds up": chain(8, "[[[[[[[[[['${{a{n}}}']]]]]]]]]]", "x"),
    "more expressions than a profile may have": "".join(f"a{n}: ${{pipeline}}\n" for n in range(300)),
}


@pytest.mark.parametrize("text", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_expressions_that_grow(profile_file: WriteProfile, text: str) -> None:
    assert only(profile_file(HEAD + text)).name == "too-large"


BROKEN_EXPRESSIONS = {
    "a cycle": "a: ${b}\nb: ${a}\n",
    "itself": "a: ${a}\n",
    "the mapping it stands in": "a: {b: '${a}'}\n",
    "cycles that branch": "a: ['${b}', '${b}']\nb: ['${a}', '${a}']\n",
    "nothing": "a: ${b.c}\n",
    "a variable that is not set": "a: ${oc.env:NO_SUCH_VARIABLE}\n",
    "an unclosed brace": "a: ${b\n",
    "two thousand unclosed braces": "a: '" + "${" * 2000 + "'\n",
    "an import": "a: ${oc.coerce:antigravity.x,1}\n",
    "an import behind a name that is computed": "a: oc.coerce\nb: '${${a}:antigravity.x,1}'\n",
    "an import behind text that is decoded": "a: \"${oc.decode:'\\\\${oc.coerce:antigravity.x,1}'}\"\n",
    "an import behind a default that is decoded": (
        "a: '${oc.decode:${oc.env:NO_SUCH_VARIABLE,\\${oc.coerce:antigravity.x,1}}}'\n"
    ),
    "a resolver that nobody has": "a: ${no.such:1}\n",
}


@pytest.mark.parametrize("text", BROKEN_EXPRESSIONS.values(), ids=BROKEN_EXPRESSIONS)
def test_expressions_that_cannot_be_resolved(profile_file: WriteProfile, text: str) -> None:
    reason = only(profile_file(HEAD + text))
    assert reason.name == "interpolation"
    assert reason.line >= 3
    assert reason.column >= 4


BYTES = {
    # name: (bytes, name of the refusal, line, column)
    "ten megabytes": (HEAD.encode() + b"#" * 10_000_000, "too-large", 0, 0),
    "noise": (b"\x80" + random.Random(0).randbytes(5000), "unreadable-file", 1, 1),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0", "unreadable-file", 1, 1),
    "Latin-1": ("pipeline: x\n# \u00fcbung\n".encode("latin-1"), "unreadable-file", 2, 3),
    "UTF-16 with a mark": (HEAD.encode("utf-16"), "unreadable-file", 1, 1),
    "UTF-16 without a mark": (HEAD.encode("utf-16-le"), "yaml-syntax", 1, 2),
    "a byte that begins no character": (b"pipeline: x\r\n\xc3\xbc: \xff\n", "unreadable-file", 2, 4),
    "nothing": (b"", "no-pipeline", 1, 1),
}


@pytest.mark.parametrize(("content", "name", "line", "column"), BYTES.values(), ids=BYTES)
def test_hostile_bytes(tmp_path: Path, content: bytes, name: str, line: int, column: int) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_bytes(content)
    with pytest.raises(ResolveError) as refused:
        omnicfg.resolve(profile)
    (reason,) = refused.value.diagnostics
    assert summary(reason) == (name, line, column)
    assert (reason.code, line, column) in [(one.code, one.line, one.column) for one in omnicfg.validate(profile)]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("\ufeff" + HEAD + "model_runner: v3\n", id="a byte order mark"),
        pytest.param((HEAD + "model_runner: v3\n").replace("\n", "\r\n"), id="carriage returns and line feeds"),
        pytest.param((HEAD + "model_runner: v3\n").replace("\n", "\r"), id="carriage returns"),
        pytest.param((HEAD + "model_runner: v3\n").replace("false", "false # \u4e2d\U0001f600"), id="other scripts"),
        pytest.param("%YAML 1.1\n---\n" + HEAD[20:] + "model_runner: v3\n...\n", id="a directive and an end"),
    ],
)
def test_harmless_oddities_are_read_and_places_stay_right(tmp_path: Path, content: str) -> None:
    profile = tmp_path / "qwen3_tts.yaml"
    profile.write_bytes(content.encode())
    reason = only(profile)
    line = len(content[: content.index("model_runner")].replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    assert summary(reason) == ("bad-model-runner", line, 15)


# ---------------------------------------------------------------------------------------------- sizes of values
def test_more_replicas_than_anyone_has(profile_file: WriteProfile) -> None:
    profile = profile_file(STAGE + '    devices: "0"\n    num_replicas: 1000000000000\n')
    with time_limit():
        assert omnicfg.resolve(profile).stage(0) is not None
        omnicfg.validate(profile)


def test_a_device_list_of_a_megabyte(profile_file: WriteProfile) -> None:
    profile = profile_file(STAGE + '    devices: "' + ",".join(["1"] * 300_000) + '"\n')
    with time_limit():
        (finding,) = omnicfg.validate(profile, platform="cuda")
    assert summary(finding) == ("device-count", 5, 14)
    assert len(finding.message) < 2100


def test_a_thousand_unknown_keys(profile_file: WriteProfile) -> None:
    profile = profile_file(STAGE + "".join(f"    max_num_seq_{n}: 1\n" for n in range(1000)))
    with time_limit():
        assert len(in_cpu_s(SECONDS * 2, lambda: omnicfg.validate(profile))) == 1000


# ---------------------------------------------------------------------------------------------- paths of files
@pytest.fixture
def odd_files(tmp_path: Path) -> Path:
    """A folder with things that are no profiles."""
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "binary.yaml").write_bytes(b"pipeline: x\n\xff\xfe")
    return tmp_path


BASES = {
    # base_config: (name of the refusal, words of its message)
    "folder.yaml": ("bad-base", "`folder.yaml` is a directory"),
    "pipe.yaml": ("bad-base", "`pipe.yaml` is a device or pipe"),
    "zero.yaml": ("bad-base", "`zero.yaml` is a device or pipe"),
    "/dev/zero": ("bad-base", "is not a YAML file"),
    "loop.yaml": ("bad-base", "`loop.yaml` cannot be read"),
    "missing.yaml": ("bad-base", "`missing.yaml` does not exist"),
    "profile.yaml/x.yaml": ("bad-base", "does not exist"),
    "profile.yaml": ("base-cycle", "leads back to a file"),
    "./sub/../profile.yaml": ("base-cycle", "leads back to a file"),
    "~/profile.yaml": ("bad-base", "does not exist"),
    '"a\\0b.yaml"': ("bad-base", "is not a YAML file"),
    '""': ("bad-base", "is not a YAML file"),
    "..": ("bad-base", "is not a YAML file"),
    "5": ("bad-base", "is one path"),
    "[a.yaml, b.yaml]": ("bad-base", "is one path"),
    "a" * 300 + ".yaml": ("bad-base", "cannot be read: File name too long"),
}


@pytest.mark.parametrize(("base", "name", "words"), [(base, *told) for base, told in BASES.items()], ids=list(BASES))
def test_a_base_that_is_no_profile(odd_files: Path, base: str, name: str, words: str) -> None:
    profile = odd_files / "profile.yaml"
    profile.write_text(f"base_config: {base}\n{HEAD}")
    reason = only(profile)
    assert summary(reason) == (name, 1, 14)
    assert words in reason.message
    assert reason.path == str(profile)


def test_a_base_that_is_no_text_is_refused_where_it_is_broken(odd_files: Path) -> None:
    profile = odd_files / "profile.yaml"
    profile.write_text(f"base_config: binary.yaml\n{HEAD}")
    reason = only(profile)
    assert reason.path == str(odd_files / "binary.yaml")
    assert summary(reason) == ("unreadable-file", 2, 1)


def test_bases_that_go_round(tmp_path: Path) -> None:
    for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"{HEAD}base_config: {base}.yaml\n")
    reason = only(tmp_path / "a.yaml")
    assert reason.path == str(tmp_path / "c.yaml")
    assert summary(reason) == ("base-cycle", 3, 14)


def test_a_link_that_makes_the_chain_longer_at_each_step(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a.yaml").write_text(f"{HEAD}base_config: again/a.yaml\n")
    reason = only(tmp_path / "a.yaml")
    assert summary(reason) == ("base-cycle", 3, 14)
    assert "longer than 32 files" in reason.message


@pytest.mark.parametrize(
    "name",
    ["folder.yaml", "pipe.yaml", "zero.yaml", "loop.yaml", "missing.yaml", "a" * 300, "a\0b", "\udc80", ".", "~"],
)
def test_a_profile_that_is_no_file_is_a_usage_error(odd_files: Path, name: str) -> None:
    for act in (
        lambda: omnicfg.resolve(odd_files / name),
        lambda: omnicfg.validate(odd_files / name),
        lambda: omnicfg.resolve("qwen3_tts", overlays=[odd_files / name]),
    ):
        with time_limit(), pytest.raises(UsageError) as refused:
            act()
        assert refused.value.diagnostics[0].help


def test_a_profile_without_permission(profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_arguments: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    profile = profile_file(HEAD)
    monkeypatch.setattr(Path, "open", forbidden)  # as root, a mode of 0 would not do it
    assert "cannot be read: Permission denied" in only(profile).message


def test_a_long_chain_that_sets_the_same_value_in_every_file(profile_file: WriteProfile) -> None:
    block = "stages: [{stage_id: 0, default_sampling_params: {temperature: 0.5}}]"
    for number in range(32):
        base = f"base_config: f{number + 1}.yaml\n" if number < 31 else ""
        profile_file(f"{base}{HEAD}{block}\nplatforms: {{npu: {{{block}}}}}\n", f"f{number}.yaml")
    profile = profile_file(f"base_config: f1.yaml\n{HEAD}", "f0.yaml")
    with time_limit():
        plan = in_cpu_s(SECONDS, lambda: omnicfg.resolve(profile, platform="npu"))
    node = plan.find("stages.0.default_sampling_params.temperature")
    assert node is not None
    assert len(node.beaten) == 30 + 31
