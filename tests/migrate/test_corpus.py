"""Every stage config that vllm-omni 0.16.0, 0.18.0 and 0.20.0 shipped: what becomes of it, line by line, and the proof.

The committed reports say what became of each line. ``--update-snapshots`` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import omnicfg
from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.errors import ResolveError
from omnicfg.migrate.facts import facts
from omnicfg.migrate.outcome import Outcome
from omnicfg.migrate.overlay import diffusion_defaults, vllm_defaults
from omnicfg.migrate.run import Migration, migrate
from omnicfg.migrate.write import write_profile
from omnicfg.report.yaml import inline
from tests.migrate.conftest import Corpus
from tests.migrate.corpus import COUNTS

REPORTS = Path(__file__).parent / "reports"
REFUSED = {
    "0.16.0": set(),
    "0.18.0": set(),
    "0.20.0": {"dynin_omni", "dynin_omni_multiconnector", "npu/voxcpm", "npu/voxcpm_async_chunk", "voxcpm"}
    | {"voxcpm_async_chunk"},
}
"""The files whose pipelines vLLM-Omni no longer has; every other one migrates."""

pytestmark = [
    pytest.mark.usefixtures("environment_allowed"),
    pytest.mark.filterwarnings("ignore:In the sequence"),  # OmegaConf, of an empty default of a variable
]


def report(path: Path, target: Path) -> Iterator[str]:
    """A migration in lines: what was recognised, each line of the old file, and what the base adds."""
    try:
        done = migrate(path, target=target)
    except ResolveError as error:
        yield from (f"  refused {one.code} {one.line}:{one.column}: {one.message}" for one in error.diagnostics)
        return
    yield f"  {done.pipeline} on {done.base.name} for {done.platform}: {done.held} of {done.checked} values hold"
    yield from (f"  {_line(outcome)}" for outcome in done.outcomes)
    yield from (f"  added    {added.key} = {inline(added.value)}" for added in done.added)
    yield from (f"  missing  stage {stage}" for stage in done.missing)


def _line(outcome: Outcome) -> str:
    place = str(outcome.mark.line) if outcome.mark else "-"
    told = re.sub(r"(\.yaml):\d+:\d+", r"\1", outcome.note)  # where in a shipped profile is that profile's own affair
    note = f" | {told}" if told else ""
    return f"{outcome.fate.value:8} {place:>4} {outcome.path} = {inline(outcome.value)}{note}"


@pytest.mark.parametrize("version", COUNTS)
def test_each_line_of_each_file_is_told(
    version: str, corpus: Corpus, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    target = tmp_path / "new.yaml"
    told = [line for name, path in corpus[version].items() for line in (name, *report(path, target))]
    text = "".join(f"{line}\n" for line in told)
    committed = REPORTS / f"{version}.txt"
    if request.config.getoption("--update-snapshots"):
        committed.parent.mkdir(exist_ok=True)
        committed.write_text(text, encoding="utf-8")
    assert text == committed.read_text(encoding="utf-8")


@pytest.mark.parametrize("version", COUNTS)
def test_what_does_not_migrate_has_no_pipeline_today(version: str, corpus: Corpus) -> None:
    for name, path in corpus[version].items():
        if name in REFUSED[version]:
            with pytest.raises(ResolveError, match="OC013 no pipeline"):
                migrate(path)
        else:
            assert migrate(path).text


@pytest.mark.parametrize("flat", [False, True], ids=["over a base", "flat"])
@pytest.mark.parametrize("version", COUNTS)
def test_the_old_values_take_effect(version: str, flat: bool, corpus: Corpus, tmp_path: Path) -> None:
    """The proof by other means: the old file read with another reader, the new one from disk as any user has it."""
    for name, path in corpus[version].items():
        if name in REFUSED[version]:
            continue
        target = tmp_path / f"{name.replace('/', '_')}.yaml"
        done = migrate(path, target=target, flat=flat)
        write_profile(done, target)
        assert (done.base.reference is None) >= flat
        plan = omnicfg.resolve(target, platform=done.platform, pipeline=done.pipeline).to_dict()
        old = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        wrong = list(_wrong(old, plan, done))
        assert wrong == [], name


def _wrong(old: dict[str, Any], plan: dict[str, Any], done: Migration) -> Iterator[str]:
    """The engine args, devices, connectors and sampling parameters of an old file that the plan does not give."""
    lost = {outcome.path for outcome in done.outcomes if outcome.fate.is_loss}
    stages = {stage["stage_id"]: stage for stage in plan["stages"]}
    connectors = old.get("runtime", {}).get("connectors", {})
    for position, entry in enumerate(old["stage_args"]):
        stage, where = stages[entry["stage_id"]], f"stage_args.{position}"
        kind = _kind(done.pipeline, entry["stage_id"])
        for key, value in _engine_args(entry, kind).items():
            if not _is(stage["engine_args"], key, value, kind) and f"{where}.engine_args.{key}" not in lost:
                yield f"{where}.engine_args.{key}"
        devices = entry["runtime"]["devices"]
        if stage["runtime"]["devices"] != str(devices):
            yield f"{where}.runtime.devices"
        params = stage["extras"].get("default_sampling_params", {})
        for key, value in (entry.get("default_sampling_params") or {}).items():
            told = set(value) <= set(params[key]) if key == "stop_token_ids" else params.get(key) == value
            if not told and f"{where}.default_sampling_params.{key}" not in lost:
                yield f"{where}.default_sampling_params.{key}"
        for side in ("input_connectors", "output_connectors"):
            for edge, connector in entry.get(side, {}).items():
                name = stage["extras"][side][edge]
                today = plan["deploy"]["connectors"][name]
                read = {key: value for key, value in connectors[connector]["extra"].items() if _is_read(key)}
                if today["name"] != connectors[connector]["name"] or not read.items() <= today["extra"].items():
                    yield f"{where}.{side}.{edge}"


def _kind(pipeline: str, stage_id: int) -> str:
    return next(str(one["execution_type"]) for one in pipelines()[pipeline]["stages"] if one["stage_id"] == stage_id)


def _engine_args(entry: dict[str, Any], kind: str) -> dict[str, Any]:
    """Those engine args of an old stage that a stage may still set, with the batch size under today's name."""
    owned = {key.partition(".")[2] for key, fact in facts()["stage"].items() if key.startswith("engine_args.")}
    given = entry["engine_args"]
    found = {key: value for key, value in given.items() if key in deploy_schema().owners[kind] and key not in owned}
    batch = entry["runtime"].get("max_batch_size")
    return {"max_num_seqs": batch, **found} if batch else found


def _is(args: dict[str, Any], key: str, value: Any, kind: str) -> bool:
    if key in args:
        return bool(args[key] == value and isinstance(args[key], bool) is isinstance(value, bool))
    defaults = diffusion_defaults() if kind == "diffusion" else vllm_defaults()
    return value is None or (key in defaults and bool(defaults[key] == value))


def _is_read(key: str) -> bool:
    return key in deploy_schema().connector_extra_keys
