"""vLLM's engine args as data: the type language, the committed releases, and what changed between them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnicfg.catalog.paths import schemas_dir
from omnicfg.export.vllm import main, read_releases, wrong_defaults
from omnicfg.export.vllm_changes import changes, flattened
from omnicfg.export.vllm_types import Type, accepts, closed_choices, is_nullable, kind, union

FOLDER = schemas_dir() / "vllm"
RELEASES = read_releases(FOLDER)
LATEST = RELEASES[-1]
ROOT = Path(__file__).parents[2]

each_release = pytest.mark.parametrize("release", RELEASES, ids=lambda release: str(release["vllm"]))


def release_of(version: str) -> dict[str, Any]:
    return next(release for release in RELEASES if release["vllm"] == version)


def arg_type(name: str) -> Type:
    type_: Type = release_of("0.32.0")["args"][name]["type"]
    return type_


def records(release: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every arg and every config field."""
    yield from release["args"].items()
    for cls, config in release["configs"].items():
        for name, record in config["fields"].items():
            yield f"{cls}.{name}", record


# --------------------------------------------------------------------------------------------------- the language


@pytest.mark.parametrize(
    ("type_", "yes", "no"),
    [
        ("bool", [True, False], ["false", "true", 0, 1, None]),
        ("int", [0, -3], [True, 1.0, "8", None]),
        ("float", [1, 0.5], [False, "0.5"]),
        ("str", ["", "auto"], [1, True, None]),
        ("none", [None], ["null", 0]),
        ("any", [None, [], {"a": 1}], []),
        ("object", [], [None, "x", {}]),
        ({"int": {"ge": 1}}, [1, 9], [0, True, 1.5]),
        ({"float": {"gt": 0, "le": 1}}, [0.92, 1], [0, 1.01, "0.9"]),
        ({"str": {"pattern": "^a"}}, ["ab"], ["ba"]),
        ({"choices": ["auto", "fp8"]}, ["fp8"], ["FP8", "fp 8", None]),
        ({"choices": [1, 8]}, [8], ["8", True, 1.0]),
        ({"choices": ["FLASH_ATTN"], "ignore_case": True}, ["flash_attn", "FLASH_ATTN"], ["flash-attn"]),
        ({"choices": ["flash_attn"], "ignore_case": True, "dashes": True}, ["Flash-Attn"], ["flash attn"]),
        ({"list": "int"}, [[], [1, 2]], [[1, "2"], 1, {"a": 1}]),
        ({"list": "int", "min_length": 1}, [[1]], [[]]),
        ({"set": "str"}, [["a", "a"]], ["a", [1]]),
        ({"tuple": ["int", "str"]}, [[1, "a"]], [[1], [1, "a", 2], ["a", 1]]),
        ({"dict": ["str", "int"]}, [{}, {"image": 1}], [{"image": "1"}, {1: 1}, []]),
        ({"any_of": ["int", "none"]}, [1, None], ["1", False]),
    ],
    ids=str,
)
def test_a_type_takes_what_means_the_same_to_vllm(type_: Type, yes: list[Any], no: list[Any]) -> None:
    assert all(accepts(type_, value, {}) for value in yes)
    assert not any(accepts(type_, value, {}) for value in no)


def test_a_config_takes_its_own_fields_only_and_all_that_are_required() -> None:
    configs = {
        "Mark": {"open": False, "fields": {"key": {"type": "int", "required": True}, "deep": {"type": "bool"}}},
        "Free": {"open": True, "fields": {"key": {"type": "int"}}},
    }
    mark, free = {"config": "Mark"}, {"config": "Free"}
    assert accepts(mark, {"key": 1, "deep": True}, configs)
    assert not accepts(mark, {"deep": True}, configs)
    assert not accepts(mark, {"key": 1, "depe": True}, configs)
    assert not accepts(mark, {"key": 1, "deep": "true"}, configs)
    assert accepts(free, {"other": "x"}, configs)
    assert not accepts(free, {"key": "x"}, configs)


@pytest.mark.parametrize("type_", ["boolean", {}, {"list": "int", "dict": ["str", "int"]}, {"int": {}, "open": True}])
def test_what_is_no_type_is_said_to_be_none(type_: Type) -> None:
    with pytest.raises(ValueError, match="not a type"):
        kind(type_)


def test_a_union_reads_choices_first_and_null_last() -> None:
    assert union(["none", "str", {"choices": ["a"]}, {"choices": ["b"]}, "object"]) == {
        "any_of": [{"choices": ["a", "b"]}, "str", "none"]
    }
    assert union(["int", {"any_of": ["int", "none"]}]) == {"any_of": ["int", "none"]}
    assert union(["bool", "any"]) == "any"
    assert union(["object"]) == "object"
    assert union(["int"]) == "int"


def test_an_open_choice_is_no_closed_one() -> None:
    assert closed_choices({"any_of": [{"choices": ["a"]}, "none"]}) == ["a"]
    assert closed_choices({"any_of": [{"choices": ["a"]}, "str"]}) is None


# --------------------------------------------------------------------------------------------- the committed data


def test_three_releases_are_there_each_in_its_own_file() -> None:
    assert [release["vllm"] for release in RELEASES] == ["0.31.0", "0.32.0", "0.33.0"]
    for path in FOLDER.glob("[0-9]*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["vllm"] == path.stem


@each_release
def test_every_type_is_of_the_language_and_every_config_it_names_is_there(release: dict[str, Any]) -> None:
    named: set[str] = set()

    def visit(type_: Any) -> None:
        match kind(type_), type_:
            case ("config", {"config": name}):
                named.add(name)
            case ("any_of" | "dict" | "tuple" as key, _):
                assert key != "any_of" or not any(kind(part) in ("any_of", "any", "object") for part in type_[key])
                for part in type_[key]:
                    visit(part)
            case ("list" | "set" as key, _):
                visit(type_[key])
            case _:
                pass

    for _, record in records(release):
        visit(record["type"])
    assert named == set(release["configs"])


@each_release
def test_every_default_is_of_its_own_type(release: dict[str, Any]) -> None:
    assert wrong_defaults(release) == []


@each_release
def test_what_is_repeated_agrees(release: dict[str, Any]) -> None:
    for name, record in records(release):
        assert record["nullable"] == is_nullable(record["type"]), name
        assert record["choices"] == closed_choices(record["type"]), name
        assert set(record.get("cli_choices", [])) <= set(record["choices"] or []), name


@each_release
def test_a_flag_belongs_to_one_arg(release: dict[str, Any]) -> None:
    flags = [flag for record in release["args"].values() for flag in record["flags"]]
    assert len(flags) == len(set(flags))
    assert all(re.fullmatch(r"--?[a-z0-9-]+", flag) for flag in flags)
    for name, record in release["args"].items():
        assert bool(record["flags"]) == (record["cli"] is not None), name
        if record["flags"]:
            assert f"--{name.replace('_', '-')}" in record["flags"], name
        if record["cli"] == "flag":
            assert f"--no-{name.replace('_', '-')}" in record["flags"], name


@each_release
def test_help_is_short_and_there(release: dict[str, Any]) -> None:
    for name, record in release["args"].items():
        assert len(record["help"]) <= 602, name
        assert record["help"].strip() == record["help"], name
        assert "\n\n" not in record["help"], name
        assert record["help"] or not record["flags"], name


@each_release
def test_nothing_of_the_machine_that_exported_it_is_in_it(release: dict[str, Any]) -> None:
    defaults = json.dumps([record["default"] for _, record in records(release)])
    assert not re.search(r'"/|~/|\bcpu\d|localhost', defaults)
    assert release["configs"]["KVTransferConfig"]["fields"]["kv_buffer_device"]["default"] == "cuda"
    assert {name.partition(".")[0] for name in release["environment"]} <= set(release["configs"])


@each_release
def test_unset_args_resolve_to_values_of_their_type(release: dict[str, Any]) -> None:
    for name, record in release["resolved"].items():
        type_ = release["args"][name]["type"]
        cases = record.get("cases", [])
        values = [record["value"], *record.get("by_stage", {}).values(), *(case["value"] for case in cases)]
        assert all(value is None or accepts(type_, value, release["configs"]) for value in values), name
        assert re.fullmatch(r"vllm/[\w/]+\.py:\d+", record["source"]), name
        assert record["when"], name
        assert all(case["when"] for case in cases), name


@each_release
def test_the_prefix_cache_is_on_where_nobody_says_otherwise(release: dict[str, Any]) -> None:
    assert release["args"]["enable_prefix_caching"]["default"] is None
    resolved = release["resolved"]["enable_prefix_caching"]
    assert resolved["value"] is True
    assert resolved["by_stage"] == {"llm_ar": True}


@each_release
def test_batch_sizes_depend_on_device_memory_and_usage(release: dict[str, Any]) -> None:
    def outcome(arg: str, usage: str, gib: int) -> Any:
        for case in release["resolved"][arg]["cases"]:
            low, high = case.get("device_memory_gib", [None, None])
            if case.get("usage") == usage and low is not None and low <= gib and (high is None or gib < high):
                return case["value"]
        return None

    assert outcome("max_num_seqs", "LLM_CLASS", 24) == 256
    assert outcome("max_num_seqs", "LLM_CLASS", 141) == 1024
    assert outcome("max_num_batched_tokens", "LLM_CLASS", 141) == 16384
    assert outcome("max_num_batched_tokens", "OPENAI_API_SERVER", 141) == 8192


@pytest.mark.parametrize(
    ("arg", "value", "taken"),
    [
        ("enable_prefix_caching", False, True),
        ("enable_prefix_caching", "false", False),
        ("enforce_eager", None, False),
        ("gpu_memory_utilization", 1.2, False),
        ("max_model_len", 32768, True),
        ("max_model_len", "25.6k", False),
        ("max_num_seqs", 0, False),
        ("dtype", "bfloat16", True),
        ("dtype", "bf16", False),
        ("attention_backend", "flash_attn", True),
        ("attention_backend", "flash_atn", False),
        ("attention_backend", "auto", True),
        ("moe_backend", "Deep-GEMM", True),
        ("quantization", "a_method_of_some_plugin", True),
        ("limit_mm_per_prompt", {"image": 1, "video": {"count": 1}}, True),
        ("limit_mm_per_prompt", {"image": "1"}, False),
        ("hf_overrides", {"architectures": ["X"]}, True),
        ("compilation_config", {"cudagraph_mode": "PIECEWISE", "pass_config": {"fuse_norm_quant": True}}, True),
        ("compilation_config", {"cudagraph_mode": "PIECES"}, False),
        ("compilation_config", {"pass_config": {"fuse_norm_quant": "true"}}, False),
        ("compilation_config", {"cudagraph_modes": "NONE"}, False),
        ("compilation_config", {"mode": 3}, True),
        ("compilation_config", 3, False),
        ("speculative_config", {"method": "eagle3", "num_speculative_tokens": 3}, True),
        ("speculative_config", {"method": "eagle3", "num_speculative_tokens": 0}, False),
    ],
)
def test_values_of_profiles(arg: str, value: Any, taken: bool) -> None:
    assert accepts(arg_type(arg), value, release_of("0.32.0")["configs"]) is taken


def test_the_command_line_takes_shorter_numbers_where_vllm_says_so() -> None:
    args = LATEST["args"]
    assert args["max_model_len"]["cli"] == "human_int_or_auto"
    assert args["max_num_batched_tokens"]["cli"] == "human_int"
    assert args["max_num_seqs"]["cli"] == "int"


def test_deprecated_args_say_what_replaces_them() -> None:
    record = release_of("0.32.0")["args"]["log_config_file"]
    assert record["deprecated"]
    assert record["replaced_by"] == "logging_config.pylogging_config_file"
    assert record["replaced_by"] in flattened(release_of("0.32.0"))
    assert not release_of("0.32.0")["args"]["allow_deprecated_quantization"]["deprecated"]


# --------------------------------------------------------------------------------------------- between the releases


def test_the_committed_changes_are_those_of_the_committed_releases(tmp_path: Path) -> None:
    for path in FOLDER.glob("[0-9]*.json"):
        shutil.copy(path, tmp_path)
    assert main(["--out", str(tmp_path), "--changes"]) == 0
    assert (tmp_path / "changes.json").read_bytes() == (FOLDER / "changes.json").read_bytes()


def test_what_an_upgrade_changes() -> None:
    found = json.loads((FOLDER / "changes.json").read_text(encoding="utf-8"))
    assert list(found) == ["0.31.0..0.32.0", "0.32.0..0.33.0"]
    first, second = found.values()
    assert "sleep_mode_offload_cudagraph" in first["added"]
    assert "kv_transfer_config.kv_ip" in first["removed"]
    assert first["default_changed"]["disable_cascade_attn"] == [True, None]
    assert first["choices_changed"]["mamba_cache_mode"] == {"added": [], "removed": ["all"]}
    assert "watchdog_config" in second["added"]
    assert "ir_op_priority" in second["deprecated"]


def _release(version: str, fields: dict[str, dict[str, Any]]) -> dict[str, Any]:
    arg = {"type": {"config": "C"}, "default": {}, "help": "The config.", "deprecated": False}
    return {"vllm": version, "args": {"c": arg}, "configs": {"C": {"fields": fields}}, "resolved": {}}


def _field(type_: Type, help_: str) -> dict[str, Any]:
    return {"type": type_, "default": None, "help": help_, "deprecated": False}


def test_a_rename_is_a_pair_that_says_the_same_and_anything_else_is_not() -> None:
    old = {"size": _field("int", "Bytes of the buffer that holds requests."), "mode": _field("str", "How to run.")}
    new = {"bytes": _field("int", "Bytes of the buffer holding requests."), "port": _field("str", "Where to listen.")}
    found = changes([_release("1.0.0", old), _release("1.1.0", new)])["1.0.0..1.1.0"]
    assert [(rename["from"], rename["to"]) for rename in found["renamed"]] == [("c.size", "c.bytes")]
    assert "Bytes of the buffer" in found["renamed"][0]["evidence"]
    assert (found["added"], found["removed"]) == (["c.port"], ["c.mode"])


def test_new_choices_are_no_new_type() -> None:
    old, new = ({"mode": _field({"dict": ["str", {"choices": names}]}, "")} for names in (["a", "b"], ["b", "c"]))
    found = changes([_release("1.0.0", old), _release("1.1.0", new)])["1.0.0..1.1.0"]
    assert found["choices_changed"] == {"c.mode": {"added": ["c"], "removed": ["a"]}}
    assert found["type_changed"] == {}


def test_a_config_inside_itself_is_followed_once() -> None:
    paths = flattened(_release("1.0.0", {"again": _field({"any_of": [{"config": "C"}, "none"]}, "")}))
    assert set(paths) == {"c", "c.again"}


# ------------------------------------------------------------------------------------------------------- with vLLM

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="comes with the extra cpu or cuda")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own: the export replaces the platform and hides modules."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_without_vllm_the_command_says_so(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['vllm'] = None; from omnicfg.export.vllm import main; sys.exit(main())"
    result = python("-c", hidden, "--out", str(tmp_path))
    assert result.returncode == 2
    assert "cannot export vLLM's engine args" in result.stderr
    assert "Traceback" not in result.stderr


@needs_vllm
@pytest.mark.slow
def test_the_installed_release_gives_the_committed_bytes(tmp_path: Path) -> None:
    result = python("-m", "omnicfg.export.vllm", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    (made,) = tmp_path.iterdir()
    assert made.read_bytes() == (FOLDER / made.name).read_bytes()


# What vLLM's own validation of single fields says to values at and beyond every edge of their types.
_ASK_VLLM = """
import json, sys
from omnicfg.export.vllm_environment import prepare
arg_utils = prepare()
from omnicfg.export.vllm_annotations import field_check
from omnicfg.export.vllm_args import ArgsExporter
from omnicfg.export.vllm_types import accepts, members

exporter = ArgsExporter(arg_utils)
exporter.args()
configs = exporter.configs()

def samples(type_):
    yield from (None, True, False, 0, 1, -1, 2, 1.5, "x", [], ["x"], [1], {"x": 1})
    for member in members(type_):
        if isinstance(member, dict):
            for choice in member.get("choices", ()):
                yield from (choice, *((choice.swapcase(), choice.replace("_", "-")) if isinstance(choice, str) else ()))
            for bound in {**member.get("int", {}), **member.get("float", {})}.values():
                yield from (bound - 1, bound, bound + 1)

verdicts = [
    (f"{cls}.{name}", value, accepts(record["type"], value, configs), check(value))
    for cls, config in configs.items()
    for name, record in config["fields"].items()
    for check in [field_check(exporter.reader.configs[cls], name)]
    for value in samples(record["type"])
]
json.dump(verdicts, sys.stdout)
"""


@needs_vllm
@pytest.mark.slow
def test_vllm_itself_takes_what_a_type_takes_and_converts_what_else_it_takes() -> None:
    result = python("-c", _ASK_VLLM)
    assert result.returncode == 0, result.stderr
    verdicts = json.loads(result.stdout.splitlines()[-1])
    assert len(verdicts) > 3000
    assert [(field, value) for field, value, ours, vllm in verdicts if ours and not vllm] == []
    laxer = [(field, value) for field, value, ours, vllm in verdicts if vllm and not ours]
    # pydantic makes 1 of true, true of 1 and 2 of 2.0; everything else that vLLM takes, the type takes.
    assert [(field, value) for field, value in laxer if not isinstance(value, bool | int | float)] == []


_TINY = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
    "torch_dtype": "float32",
}

# The engine config that vLLM builds of a model and nothing else, in a usage context that the data knows.
_START_CONFIG = """
import json, os, sys
os.environ.update(HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1")
for name in ("torchvision", "torchaudio", "torchcodec"):
    sys.modules[name] = None
from vllm.engine.arg_utils import EngineArgs
from vllm.platforms import current_platform
from vllm.usage.usage_lib import UsageContext

if __name__ == "__main__":
    config = EngineArgs(model=sys.argv[1], skip_tokenizer_init=True).create_engine_config(UsageContext.LLM_CLASS)
    parts = (config.cache_config, config.scheduler_config, config.parallel_config, config.kernel_config)
    found = {name: getattr(part, name) for name in json.loads(sys.argv[2]) for part in parts if hasattr(part, name)}
    print(json.dumps({"platform": current_platform.device_type, "found": found}))
"""
_STARTED = (
    "async_scheduling",
    "block_size",
    "data_parallel_rpc_port",
    "disable_hybrid_kv_cache_manager",
    "distributed_executor_backend",
    "enable_batch_sharded_sampling",
    "enable_chunked_prefill",
    "enable_flashinfer_autotune",
    "enable_prefix_caching",
    "max_num_batched_tokens",
    "max_num_seqs",
    "worker_cls",
)


@needs_vllm
@pytest.mark.slow
def test_unset_args_become_on_the_cpu_what_the_data_says(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_TINY), encoding="utf-8")
    result = python("-c", _START_CONFIG, str(tmp_path), json.dumps(_STARTED))
    assert result.returncode == 0, result.stderr
    started = json.loads(result.stdout.splitlines()[-1])
    if started["platform"] != "cpu":
        pytest.skip("the batch sizes of a GPU depend on its memory")
    resolved = release_of("0.32.0")["resolved"]

    def on_the_cpu(arg: str) -> Any:
        cases = resolved[arg].get("cases", [])
        known = {"platform": "cpu", "usage": "LLM_CLASS"}
        matching = [
            case["value"] for case in cases if "platform" in case and known.items() >= _conditions(case).items()
        ]
        return matching[0] if matching else resolved[arg]["value"]

    assert started["found"] == {arg: on_the_cpu(arg) for arg in _STARTED}


def _conditions(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key not in ("when", "value")}
