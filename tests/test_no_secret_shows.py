"""No command shows a credential, in whatever format: not on its streams, and not in a file that it writes.

One profile holds credentials of every kind at every place where one can stand, with mistakes around them, so that
findings quote the lines. Each command is run with it in each of its formats.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from omnicfg.cli import command_module, command_names
from omnicfg.commands._options import limits_of
from omnicfg.confine import confined
from omnicfg.lsp.session import Session
from omnicfg.parser import Option, parameters
from omnicfg.report.formats import format_names
from tests.commands.conftest import Run, run  # noqa: F401  # a fixture

SECRETS: Final = {
    name: f"S3cr3t{number}z" for number, name in enumerate(
        ["API_KEY", "PASSWORD", "AUTHORIZATION", "URL", "PROXY", "FLAG", "FLAG_OF_LIST", "ASSIGNED", "BLOCK", "ITEM",
         "PLATFORM", "BASE", "LOST", "EXTRA", "CONNECTOR", "COMMENT", "SET", "VARIABLE", "CLIENT", "OVERLAY", "OLD",
         "COMMAND"]
    )
} | {
    "HUGGING_FACE": f"hf_{'aB3' * 12}", "GITHUB": f"ghp_{'x1Y' * 12}", "GITLAB": f"glpat-{'x1Y' * 7}",
    "AWS": "AKIA" + "Z9" * 8, "OPENAI": f"sk-proj-{'q7W' * 8}",
}  # fmt: skip
S: Final = SECRETS

BASE: Final = f"""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    env: {{DB_PASSWORD: {S["BASE"]}, LOST_TOKEN: {S["LOST"]}}}
    max_num_seqs: 8
connectors:
  shm: {{name: NoSuchConnector, extra: {{password: {S["CONNECTOR"]}, pasword_file: x}}}}
"""
PROFILE: Final = f"""\
base_config: base.yaml
stages:
  - stage_id: 0  # api_key: {S["COMMENT"]}
    env:
      OPENAI_API_KEY: {S["API_KEY"]}
      DB_PASSWORD: "{S["PASSWORD"]}"
      Authorization: 'Bearer {S["AUTHORIZATION"]}'
      REDIS: redis://me:{S["URL"]}@host/0
      HTTPS_PROXY: http://{S["PROXY"]}@proxy:3128
      HARMLESS: {S["HUGGING_FACE"]}
      ARGS: serve --api-key {S["FLAG"]} --x 1
      MORE: TOKEN={S["ASSIGNED"]} run
      GIT: {S["GITHUB"]} {S["GITLAB"]} {S["AWS"]} {S["OPENAI"]}
      MY_SECRET: |
        {S["BLOCK"]}
      FROM_OUTSIDE: ${{oc.env:OUTER_TOKEN}}
    hf_token: {S["EXTRA"]}
    additional_config:
      {{api_keys: [{S["ITEM"]}], args: ["--api-key", {S["FLAG_OF_LIST"]}], client_secret: {S["CLIENT"]}}}
    max_num_seq: 8
    max_num_seqs: "many"
    gpu_memory_utilization: 1.7
platforms:
  npu:
    stages:
      - {{stage_id: 0, env: {{ACCESS_TOKEN: {S["PLATFORM"]}}}, enable_prefix_cachng: true}}
"""
WHOLE: Final = PROFILE.replace('    max_num_seqs: "many"\n', "").replace(
    "gpu_memory_utilization: 1.7", "max_model_len: 64"
)
OVERLAY: Final = f"stages:\n  - stage_id: 1\n    env: {{X_TOKEN: {S['OVERLAY']}}}\n"
OLD: Final = f"""\
stage_args:
  - stage_id: 0
    runtime: {{devices: 0, env: {{API_KEY: {S["OLD"]}}}}}
    engine_args:
      model_stage: thinker
      model_arch: Qwen2_5OmniForConditionalGeneration
      hf_token: {S["EXTRA"]}
      gpu_memory_utilisation: 0.8
"""
POLICY: Final = """\
policies:
  - id: TEAM001
    message: Nothing of the environment.
    deny: stages.exists(s, has(s.runtime.env))
"""
SETTING: Final = f"stages.0.env.SET_TOKEN={S['SET']}"
COMMAND: Final = (
    f"vllm serve Qwen/Qwen3-TTS --omni --deploy-config whole.yaml --api-key {S['COMMAND']} --no-such {S['COMMAND']}"
)

WORDS: Final[dict[str, list[list[str]]]] = {
    "completion": [["bash"]],
    "diff": [["whole.yaml", "qwen3_tts"], ["whole.yaml", "mended.yaml", "--effective"], ["--git", "HEAD"],
             ["--versions", "vllm", "0.32.0..0.33.0", "whole.yaml"],
             ["--versions", "vllm-omni", "0.30.0..0.32.0rc1", "whole.yaml"]],
    "doctor": [["whole.yaml"]],
    "explain": [["whole.yaml", f"stages.0.{key}"] for key in
                ("env", "env.OPENAI_API_KEY", "env.REDIS", "env.MORE", "env.FROM_OUTSIDE", "hf_token",
                 "additional_config", "max_num_seq")] + [["whole.yaml", "connectors"]],
    "export": [["whole.yaml", "--model", "org/model", "--out", "exported.yaml"]],
    "graph": [["whole.yaml"], ["ours.yaml"]],
    "init": [["first.yaml", "--on", "whole.yaml", "--set", SETTING, "--force"]],
    "matrix": [["whole.yaml"]],
    "migrate": [["old.yaml", "-o", "new.yaml"], ["old.yaml", "--check"], ["--command", COMMAND]],
    "policy": [["test", "policies.yaml"]],
    "profiles": [[]],
    "report": [["ours.yaml", "whole.yaml", "--out", "report.html"],
               ["ours.yaml", "whole.yaml", "--git", "HEAD", "--out", "diff.html"]],
    "resolve": [["whole.yaml", "--platform", "all", "--set", SETTING, "--overlay", "overlay.yaml"],
                ["whole.yaml", "--explain"], ["whole.yaml", "--effective", "--platform", "npu"], ["ours.yaml"],
                ["whole.yaml", "--command", COMMAND], ["whole.yaml", "--set", f"stages.0.envv.TOKEN={S['SET']}"]],
    "rules": [[]],
    "schema": [["profile"]],
    "serve": [["served.yaml", "--model", "builtin:tiny-omni", "--dry-run", "--set", SETTING, "--platform", "cuda"],
              ["ours.yaml", "--model", "builtin:tiny-omni", "--dry-run"]],
    "validate": [["ours.yaml", "whole.yaml", "--policy", "policies.yaml", "--set", SETTING],
                 ["ours.yaml", "--diff"], ["ours.yaml", "--diff", "--unsafe-fixes"],
                 ["ours.yaml", "--overlay", "overlay.yaml"],
                 ["ours.yaml", "--write-baseline", "known.json"], ["broken.yaml"]],
}  # fmt: skip
ELSEWHERE: Final = {
    "bench": "starts servers; what it says of a profile is `resolve`'s, and its reports hold measurements",
    "lsp": "speaks a protocol: the test below",
}


def formats(name: str) -> list[list[str]]:
    """The options that choose a format or an engine, each alone; that of ``validate`` has its own registry."""
    if name == "validate":
        return [["--format", each] for each in format_names()]
    choices = {
        each.declared.flags[0]: each.declared.choices
        for each in parameters(command_module(name).run)
        if isinstance(each.declared, Option) and each.declared.flags[0] in ("--format", "--to", "--engine")
    }
    required = [["--to", each] for each in choices.pop("--to", ())]
    alone = [[flag, each] for flag, words in choices.items() for each in words]
    return [[*chosen, *each] for chosen in required or [[]] for each in [[], *alone]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the profiles, in which all caches are."""
    files = {
        "base.yaml": BASE, "ours.yaml": PROFILE, "whole.yaml": WHOLE, "overlay.yaml": OVERLAY, "old.yaml": OLD,
        "mended.yaml": WHOLE.replace(S["API_KEY"], S["LOST"]).replace(S["EXTRA"], S["BASE"]),
        "served.yaml": f"pipeline: tiny_omni\nstages: [{{stage_id: 0, env: {{API_KEY: {S['API_KEY']}}}}}]\n",
        "broken.yaml": PROFILE.replace("    hf_token", "   hf_token"), "policies.yaml": POLICY,
    }  # fmt: skip
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name, text in files.items():
        Path(name).write_text(text.replace(S["API_KEY"], "another") if name == "whole.yaml" else text)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    Path("whole.yaml").write_text(WHOLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OUTER_TOKEN", S["VARIABLE"])
    return tmp_path


def written(folder: Path, before: dict[Path, bytes]) -> Iterator[tuple[Path, str]]:
    for path, raw in contents(folder).items():
        if before.get(path) != raw:
            yield path, raw.decode("utf-8", "replace")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts}


def shown(text: str) -> list[str]:
    return [name for name, secret in SECRETS.items() if secret in text]


@pytest.mark.parametrize("name", WORDS)
def test_no_credential_is_shown_or_written(folder: Path, run: Run, name: str) -> None:  # noqa: F811
    allowed = ["--allow-env", "OUTER_TOKEN"] if takes_limits(name) else []
    before = contents(folder)
    for words in WORDS[name]:
        for format in formats(name):
            result = run(name, *words, *format, *allowed)
            assert (shown(result.out), shown(result.err)) == ([], []), (words, format)
            assert "Traceback" not in result.err
            for path, text in written(folder, before):
                assert shown(text) == allowed_in(path), (words, format, path)
            Path("new.yaml").unlink(missing_ok=True)


def allowed_in(path: Path) -> list[str]:
    """A profile that is made holds what it was asked to hold, or what it is made from."""
    return {"first.yaml": ["SET"], "new.yaml": ["EXTRA", "OLD"]}.get(path.name, [])


def takes_limits(name: str) -> bool:
    return bool(limits_of(command_module(name).run))


def test_a_profile_on_standard_output_is_whole_and_nothing_else_is_told_of_it(folder: Path, run: Run) -> None:  # noqa: F811
    result = run("migrate", "old.yaml")
    assert (shown(result.out), shown(result.err)) == (["EXTRA", "OLD"], [])


def test_the_profile_reaches_what_it_is_meant_to_reach(folder: Path, run: Run) -> None:  # noqa: F811
    """The test above would find nothing if the profile did not compile, or had no findings."""
    allowed = ["--allow-env", "OUTER_TOKEN"]
    assert run("resolve", "whole.yaml", *allowed).out.count("***") > 10
    report = run("validate", "ours.yaml", *allowed).out
    assert all(text in report for text in ("OC101", "OC102", "***"))


def test_every_command_is_tried() -> None:
    assert {*WORDS, *ELSEWHERE} == set(command_names())


def test_an_editor_is_shown_none(folder: Path) -> None:
    session = Session()
    with confined(allow_env=["OUTER_TOKEN"]):
        for name in ("ours.yaml", "whole.yaml"):
            path = folder / "work" / name
            text = path.read_text()
            session.put(path, text)
            told = [str(finding) for finding in session.check(path)]
            for number, line in enumerate(text.splitlines(), 1):
                told += [str(session.hover(path, number, column)) for column in range(1, len(line) + 1, 4)]
            assert "max_num_seq" in "".join(told)
            assert shown("".join(told)) == []
