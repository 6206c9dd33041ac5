"""Commands in shell scripts, Dockerfiles and compose files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from omnicfg.command_line.find import of_file, of_text
from omnicfg.command_line.parse import parse
from omnicfg.command_line.shell import Word
from omnicfg.errors import OmnicfgError, UsageError
from tests.conftest import WriteProfile
from tests.fuzz.harness import time_limit


def texts(words: list[Word]) -> list[str]:
    return [word.text for word in words]


def test_a_command_on_the_command_line() -> None:
    words = of_text(
        """CUDA_VISIBLE_DEVICES=0 exec vllm serve Qwen/X --omni --stage-overrides '{"0": {"a": 1}}' > log"""
    )
    assert texts(words) == ["Qwen/X", "--omni", "--stage-overrides", '{"0": {"a": 1}}']
    assert (words[0].mark.line, words[0].mark.column) == (1, 40)


def test_the_server_as_a_module_needs_no_flag_for_omni() -> None:
    words = of_text("python3 -m vllm_omni.entrypoints.openai.api_server --model m --port 1")
    assert texts(words) == ["--omni", "--model", "m", "--port", "1"]


def test_json_needs_no_quotes_of_its_own_inside_a_quoted_command() -> None:
    words = of_text("""vllm serve m --omni --stage-overrides {"0": {"a": "b c"}} -tp 2""")
    assert texts(words) == ["m", "--omni", "--stage-overrides", '{"0": {"a": "b c"}}', "-tp", "2"]


def test_a_shell_script_with_variables_and_continued_lines(profile_file: WriteProfile) -> None:
    script = profile_file(
        "#!/bin/bash\n"
        "export MODEL=Qwen/X TP=2  # vllm serve in a comment\n"
        "PORT=${PORT:-8000}\n"
        'vllm serve "$MODEL" --omni \\\n'
        '  --port "$PORT" -tp ${TP} --max-num-seqs $SEQS 2>&1 | tee log\n',
        "serve.sh",
    )
    words = of_file(script)
    assert texts(words) == ["Qwen/X", "--omni", "--port", "8000", "-tp", "2", "--max-num-seqs", "$SEQS"]
    assert words[-1].unknown == ("$SEQS",)
    assert (words[2].mark.line, words[2].mark.column) == (5, 3)


OMNI = ["m", "--omni", "--port", "1"]


@pytest.mark.parametrize(
    "text",
    [
        'ARGS=(m --omni)\nARGS+=(--port 1)\nvllm serve "${ARGS[@]}"',
        'EXTRA="--omni --port 1"\nvllm serve m $EXTRA',
        "vllm serve m > log 2>&1 --omni &> x --port 1",
        "vllm serve m > >(tee log) --omni --port 1",
        "$PYTHON -m vllm.entrypoints.cli.main serve m --omni --port 1",
        "bash -lc 'cd x && vllm serve m --omni --port 1'",
        "docker run --entrypoint bash image:1 -c 'vllm serve m --omni --port 1'",
        "tmux new-session -d -s x 'vllm serve m --omni --port 1'",
        'if true; then X="--port 1"; fi\nvllm serve m --omni $X',
        "start() {\n  local p=1\n  vllm serve m --omni --port $p &\n}",
        'P="${A:-${B:-1}}"\nvllm serve m --omni --port "$P"',
        "cat <<EOF\nDon't: vllm serve other\nEOF\nvllm serve m --omni --port 1",
        "cat <<-'EOF'\n\tit's\n\tEOF\nvllm serve m --omni --port 1",
        "cat > start.sh <<'EOF'\nexec vllm serve m --omni --port 1\nEOF",
        "X=$(cat 'a b' | wc)\nvllm serve m --omni --port 1",
        'CMD="vllm serve m --omni --port 1"\neval "$CMD"',
    ],
)
def test_what_else_scripts_are_written_with(text: str, profile_file: WriteProfile) -> None:
    assert texts(of_file(profile_file(text, "serve.sh"))) == OMNI


@pytest.mark.parametrize(
    ("word", "unknown"),
    [
        ('"$@"', "$@"),
        ("$(port 1)", "$(port 1)"),
        ("`port`", "`port`"),
        ("${P%%,*}", "${P%%,*}"),
        ('"${P:-$(hostname)}"', "${P:-$(hostname)}"),
        ("$1", "$1"),
    ],
)
def test_what_a_script_does_not_tell_stays_as_it_is_written(word: str, unknown: str) -> None:
    words = of_text(f"vllm serve m --omni --host {word} --port 1")
    assert texts(words) == ["m", "--omni", "--host", unknown, "--port", "1"]
    assert words[3].unknown == (unknown,)
    assert words[3].quoted == f'"{unknown}"'


def test_a_default_ends_at_the_first_brace_as_in_a_shell() -> None:
    words = of_text(r'vllm serve m --stage-overrides "${O:-{\"0\":{\"a\":1},\"1\":{\"b\":1}}}"')
    assert words[-1].text == '{"0":{"a":1,"1":{"b":1}}}'


def test_a_variable_that_grows_by_itself_is_not_followed_forever() -> None:
    assert of_text("A=xx; " + "A=$A$A; " * 60 + "vllm serve m --x $A")[-1].unknown


@pytest.mark.parametrize(
    "text",
    [
        "FROM x\nENV MODEL=Qwen/X\nCMD vllm serve $MODEL --omni \\\n    --port 1\n",
        'FROM x\nCMD ["vllm", "serve", "Qwen/X", "--omni", "--port", "1"]\n',
        'FROM x\nCMD ["vllm", "serve", "Qwen/X", \\\n     "--omni", \\\n     "--port", "1"]\n',
        "FROM x\nenv MODEL Qwen/X\ncmd vllm serve $MODEL --omni \\\n  # the port\n  --port 1\n",
        'FROM x\nENTRYPOINT ["sh", "-c"]\nCMD ["vllm serve Qwen/X --omni --port ${PORT:-1}"]\n',
        'FROM x\nENTRYPOINT ["vllm", "serve"]\nCMD ["Qwen/X", "--omni", "--port", "1"]\n',
    ],
)
def test_dockerfiles(text: str, profile_file: WriteProfile) -> None:
    assert texts(of_file(profile_file(text, "Dockerfile"))) == ["Qwen/X", "--omni", "--port", "1"]


@pytest.mark.parametrize(
    "service",
    [
        "command: vllm serve Qwen/X --omni --port 1",
        "command: >\n      vllm serve Qwen/X --omni\n      --port 1",
        'command: ["vllm", "serve", "Qwen/X", --omni, --port, 1]',
        'command: ["vllm", "serve", "${M:-Qwen/X}", --omni, "--port", "${P:-1}"]',
        'command: bash -c "sleep 1 && vllm serve Qwen/X --omni --port 1"',
        "entrypoint: [bash, -c]\n    command:\n      - |\n        vllm serve Qwen/X --omni \\\n          --port 1",
        "entrypoint: [vllm, serve]\n    command: [Qwen/X, --omni, --port, '1']",
    ],
)
def test_compose_files(service: str, profile_file: WriteProfile) -> None:
    path = profile_file(f"services:\n  db: {{image: x}}\n  omni:\n    image: y\n    {service}\n", "compose.yaml")
    assert texts(of_file(path)) == ["Qwen/X", "--omni", "--port", "1"]


def test_of_several_servers_one_is_chosen_by_its_line(profile_file: WriteProfile) -> None:
    script = profile_file("vllm serve a --omni\nvllm serve b --omni\n", "serve.sh")
    with pytest.raises(UsageError, match="2 servers, on lines 1, 2"):
        of_file(script)
    assert texts(of_file(Path(f"{script}:2"))) == ["b", "--omni"]


@pytest.mark.parametrize("text", ["", "echo hello\n", "vllm bench\n", "((((", '"', "'", "$(", "\\"])
def test_a_file_without_a_server(text: str, profile_file: WriteProfile) -> None:
    with pytest.raises(UsageError):
        of_file(profile_file(text, "serve.sh"))


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m " + "$(" * 90_000,
        "vllm serve m " + "${A:-" * 35_000,
        "A=(x)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 60 + 'vllm serve m "${A[@]}"',
        "A='" + "x " * 40_000 + "'\nvllm serve m " + "$A " * 3000,
        "vllm serve m " + "x" * 300_000,
    ],
    ids=["substitutions", "defaults", "arrays", "words", "text"],
)
def test_hostile_scripts_are_answered_at_once(text: str, profile_file: WriteProfile) -> None:
    path = profile_file(text, "serve.sh")
    with time_limit(), contextlib.suppress(OmnicfgError):
        of_file(path)


def test_an_array_of_the_callers_arguments_stays_an_array() -> None:
    words = of_text('EXTRA=(); EXTRA+=("$1"); vllm serve m --omni "${EXTRA[@]}"')
    assert texts(words) == ["m", "--omni", "${EXTRA[@]}"]
    assert parse(words).rest == (words[-1],)


def test_a_word_of_a_dockerfile_stands_behind_its_instruction(profile_file: WriteProfile) -> None:
    words = of_file(profile_file("FROM x\nCMD  vllm serve m --omni \\\n  -tp 2\n", "Dockerfile"))
    assert [(word.text, word.mark.line, word.mark.column) for word in words] == [
        ("m", 2, 17),
        ("--omni", 2, 19),
        ("-tp", 3, 3),
        ("2", 3, 7),
    ]


@pytest.mark.parametrize("continued", ["-t\\\np 2", "-tp\\\n 2", "-tp \\\n2", "-tp '2'\\\n''", "-tp \\\r\n\\\n 2"])
def test_a_line_that_goes_on_may_end_within_a_word(continued: str, profile_file: WriteProfile) -> None:
    assert texts(of_file(profile_file(f"vllm serve m {continued} --omni\n", "s.sh"))) == ["m", "-tp", "2", "--omni"]
