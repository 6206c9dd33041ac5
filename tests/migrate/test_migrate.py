"""What becomes of each kind of line, and that what is written says it."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnicfg
from omnicfg.errors import OmnicfgError, ResolveError, UsageError
from omnicfg.migrate.outcome import Fate, Outcome
from omnicfg.migrate.run import Migration, migrate
from omnicfg.migrate.write import write_profile
from omnicfg.plan import StagePlan
from tests.conftest import WriteProfile
from tests.migrate import files

pytestmark = pytest.mark.usefixtures("environment_allowed")


def fates(done: Migration) -> dict[str, Outcome]:
    return {outcome.path: outcome for outcome in done.outcomes if outcome.setting is not None}


@pytest.fixture
def tts(profile_file: WriteProfile) -> Migration:
    return migrate(profile_file(files.TTS, "old.yaml"))


@pytest.fixture
def split(profile_file: WriteProfile) -> Migration:
    return migrate(profile_file(files.SPLIT, "old.yaml"))


@pytest.fixture
def omni(profile_file: WriteProfile) -> Migration:
    return migrate(profile_file(files.OMNI, "old.yaml"))


# ----------------------------------------------------------------------------------------------- the profile, thin
def test_only_what_differs_is_written_and_comments_stay_beside_their_values(tts: Migration) -> None:
    assert tts.text == (
        "# Our voice server, tuned for one small card.\n"
        "base_config: bases/qwen3_tts_v1.yaml\n"
        "\n"
        "connectors:\n"
        "  # Everything on one machine.\n"
        "  shm:\n"
        "    name: SharedMemoryConnector\n"
        "    extra:\n"
        "      codec_chunk_frames: 20\n"
        "\n"
        "stages:\n"
        "  # The talker.\n"
        "  - stage_id: 0\n"
        "    max_num_seqs: 4  # as many as fit\n"
        "    # Leaves room for the desktop.\n"
        "    gpu_memory_utilization: 0.25\n"
        "    output_connectors:\n"
        "      to_stage_1: shm\n"
        "    default_sampling_params:\n"
        "      temperature: 0.7  # calmer than the default\n"
        "\n"
        "  - stage_id: 1\n"
        "    gpu_memory_utilization: 0.2\n"
        "    input_connectors:\n"
        "      from_stage_0: shm\n"
    )


def test_each_line_has_one_fate(tts: Migration) -> None:
    found = fates(tts)
    assert found["stage_args.0.engine_args.gpu_memory_utilization"].fate is Fate.KEPT
    assert found["stage_args.0.runtime.max_batch_size"].fate is Fate.RENAMED
    assert found["stage_args.0.runtime.max_batch_size"].note == "now `stages.0.max_num_seqs`"
    assert found["async_chunk"].fate is Fate.DEFAULT
    assert found["stage_args.0.engine_args.model_arch"].fate is Fate.TOPOLOGY
    assert found["stage_args.0.default_sampling_params.stop_token_ids"].fate is Fate.TOPOLOGY
    assert found["stage_args.1.tts_args"].fate is Fate.TOPOLOGY
    assert found["runtime.edges.0.from"].fate is Fate.TOPOLOGY
    assert found["runtime.edges.0.window_size"].fate is Fate.UNREAD
    assert found["stage_args.0.runtime.process"].fate is Fate.UNREAD
    assert found["runtime.connectors.shm.extra.shm_threshold_bytes"].note == "last read by vLLM-Omni 0.24.0"
    assert tts.losses == []
    assert tts.is_whole


def test_what_the_base_sets_beyond_the_old_file_is_told(tts: Migration) -> None:
    added = {each.key: each.value for each in tts.added}
    assert added["stages.0.default_sampling_params.min_tokens"] == 2
    assert added["stages.0.max_model_len"] == 4096
    assert "stages.0.max_num_seqs" not in added


def test_the_pipeline_is_told_by_stages_and_the_runner_by_the_release(tts: Migration) -> None:
    assert (tts.pipeline, tts.platform, tts.base.name) == ("qwen3_tts", "cuda", "qwen3_tts_v1")


def test_flat_needs_no_base_and_adds_nothing(profile_file: WriteProfile) -> None:
    done = migrate(profile_file(files.TTS, "old.yaml"), flat=True)
    assert done.text.splitlines()[1] == "pipeline: qwen3_tts"
    assert "base_config" not in done.text
    assert done.added == []
    assert done.held == done.checked


# ------------------------------------------------------------------------------------------------------ what is lost
def test_the_prefill_half_of_a_split_stage_is_lost_and_the_others_move_up(split: Migration) -> None:
    found = fates(split)
    assert found["stage_args.0.is_prefill_only"].fate is Fate.LOST
    assert found["stage_args.0.runtime.devices"].fate is Fate.LOST
    assert found["stage_args.1.engine_args.kv_transfer_config"].fate is Fate.LOST
    assert found["stage_args.1.engine_args.max_model_len"].wanted[0].key == "stages.0.max_model_len"
    assert found["stage_args.2.runtime.devices"].wanted[0].key == "stages.1.devices"
    assert found["stage_args.3.engine_input_source"].fate is Fate.TOPOLOGY
    assert split.pipeline == "qwen3_omni_moe"
    assert not split.is_whole


def test_a_connector_defined_where_it_is_used_gets_a_name(split: Migration) -> None:
    assert fates(split)["stage_args.1.output_connectors.to_stage_2"].fate is Fate.RENAMED
    plan = plan_of(split)
    (reference,) = plan.stages[0].connector_references()
    assert reference[0] == "output_connectors.to_stage_1"
    assert plan.deploy.value("connectors")[reference[1]]["extra"]["codec_chunk_frames"] == 10


def test_an_engine_arg_that_does_not_exist_is_a_loss_with_a_near_name(omni: Migration) -> None:
    lost = fates(omni)["stage_args.0.engine_args.gpu_memory_utilisation"]
    assert lost.fate is Fate.LOST
    assert lost.instead == "Did you mean `gpu_memory_utilization`?"


def test_a_processor_of_ones_own_is_a_finding_and_a_worker_of_ones_own_is_kept(omni: Migration) -> None:
    found = fates(omni)
    assert found["stage_args.1.custom_process_input_func"].fate is Fate.DIFFERS
    assert found["stage_args.1.engine_args.worker_cls"].fate is Fate.KEPT


def test_expressions_on_the_environment_stay_and_references_become_their_values(
    omni: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'max_model_len: "${oc.decode:${oc.env:MAX_LEN,4096}}"' in omni.text
    assert "    # Only where the cluster says so.\n" in omni.text
    plan_of(omni)
    monkeypatch.setenv("MAX_LEN", "100")
    plan = omnicfg.resolve(Path(omni.target).with_name("migrated.yaml"))
    assert [plan.stages[at].arg("max_model_len") for at in (0, 1)] == [100, 4096]


def test_comments_inside_a_kept_block_stay_there(omni: Migration) -> None:
    assert (
        "    compilation_config:\n"
        "      # The graph of the encoder does not capture.\n"
        "      cudagraph_mode: PIECEWISE\n"
        '      custom_ops: ["+rms_norm"]  # faster here\n'
    ) in omni.text


def test_a_number_of_a_device_becomes_text_and_runtime_settings_move(omni: Migration) -> None:
    stage = first_stage(omni)
    assert (stage.runtime.value("devices"), stage.runtime.value("num_replicas")) == ("0", 2)
    assert stage.runtime.value("env") == {"OMP_NUM_THREADS": "4"}


def test_what_no_release_read_is_told_so(profile_file: WriteProfile) -> None:
    found = fates(
        migrate(profile_file(files.OMNI + "runtime:\n  enabled: true\n  max_inflight: 1\nnotes: x\n", "old.yaml"))
    )
    assert {found[path].fate for path in ("runtime.enabled", "runtime.max_inflight", "notes")} == {Fate.UNREAD}


def test_both_batch_sizes(profile_file: WriteProfile) -> None:
    text = files.TTS.replace("      model_stage: qwen3_tts\n", "      model_stage: qwen3_tts\n      max_num_seqs: 7\n")
    done = migrate(profile_file(text, "old.yaml"))
    assert fates(done)["stage_args.0.runtime.max_batch_size"].fate is Fate.UNREAD
    assert first_stage(done).arg("max_num_seqs") == 7


def test_chunks_that_nothing_hands_on_are_lost(profile_file: WriteProfile) -> None:
    text = """\
async_chunk: true
stage_args:
  - {stage_id: 0, engine_args: {model_stage: thinker, model_arch: BagelForConditionalGeneration}}
  - {stage_id: 1, stage_type: diffusion, engine_args: {model_stage: dit}, engine_input_source: [0]}
"""
    done = migrate(profile_file(text, "old.yaml"), pipeline="bagel")
    assert fates(done)["async_chunk"].fate is Fate.LOST
    assert "async_chunk: false" in done.text


# ------------------------------------------------------------------------------------------------- bases and platforms
def test_a_stage_on_one_device_stays_there_whatever_the_base_does(profile_file: WriteProfile) -> None:
    text = """\
stage_args:
  - stage_id: 0
    runtime: {devices: "0"}
    engine_args: {model_stage: thinker, model_arch: Qwen3OmniMoeForConditionalGeneration}
"""
    done = migrate(profile_file(text, "old.yaml"))
    assert (done.pipeline, done.base.name) == ("qwen3_omni_moe_thinker_only", "qwen3_omni_moe_thinking")
    assert done.base.profile is not None
    assert done.base.profile.raw.value("stages")[0]["tensor_parallel_size"] == 2
    assert first_stage(done).arg("tensor_parallel_size") == 1
    assert done.findings == []


def test_a_file_that_names_no_stage_is_told_by_its_processors(profile_file: WriteProfile) -> None:
    processor = "vllm_omni.model_executor.stage_input_processors.qwen3_omni.thinker2talker_async_chunk"
    text = f"""\
stage_args:
  - stage_id: 0  # thinker
    engine_args:
      custom_process_next_stage_input_func: >-
        {processor}
  - stage_id: 1
  - stage_id: 2
    engine_args:
      max_num_batched_tokens: 51200  # tune this
"""
    done = migrate(profile_file(text, "old.yaml"))
    assert done.pipeline == "qwen3_omni_moe"
    assert "    max_num_batched_tokens: 51200  # tune this\n" in done.text


def test_a_base_of_ones_own_is_named_by_its_path_and_overcome_in_the_form_it_needs(profile_file: WriteProfile) -> None:
    profile_file(
        "pipeline: qwen3_tts\nasync_chunk: true\nstages:\n"
        "  - {stage_id: 0, engine_extras: {gpu_memory_utilization: 0.5}, engine_args: {max_num_seqs: 9}}\n",
        "house/base.yaml",
    )
    old = profile_file(files.TTS, "old.yaml")
    done = migrate(old, base=str(old.parent / "house" / "base.yaml"))
    assert done.base.reference == "house/base.yaml"
    stage = first_stage(done)
    assert (stage.arg("gpu_memory_utilization"), stage.arg("max_num_seqs")) == (0.25, 4)
    assert done.held == done.checked


def test_a_platform_file_goes_into_the_block_of_its_platform(profile_file: WriteProfile) -> None:
    worker = "      worker_cls: vllm_omni.platforms.npu.worker.npu_ar_worker.NPUARWorker\n"
    text = files.TTS.replace("      worker_type: ar\n", worker)
    done = migrate(profile_file(text, "old.yaml"))
    assert done.platform == "npu"
    assert fates(done)["stage_args.0.engine_args.worker_cls"].fate is Fate.TOPOLOGY
    assert "platforms:\n  npu:\n    stages:\n" in done.text
    assert first_stage(done).arg("gpu_memory_utilization") == 0.25


def test_inside_one_project_a_shipped_base_is_not_copied(profile_file: WriteProfile) -> None:
    from omnicfg.catalog.paths import profiles_dir

    done = migrate(profile_file(files.TTS, "old.yaml"), target=profiles_dir() / "mine.yaml")
    assert (done.base.reference, done.base.copy) == ("qwen3_tts_v1.yaml", False)


# ------------------------------------------------------------------------------------------------------- on disk
def test_the_base_is_copied_with_what_it_builds_on(tts: Migration, tmp_path: Path) -> None:
    written = write_profile(tts, tmp_path / "new.yaml")
    assert [path.name for path in written] == ["qwen3_tts_v1.yaml", "qwen3_tts.yaml"]
    assert omnicfg.resolve(tmp_path / "new.yaml").stages[0].arg("gpu_memory_utilization") == 0.25


def test_a_foreign_file_in_the_place_of_a_copy_stops_all(tts: Migration, tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    (tmp_path / "bases" / "qwen3_tts.yaml").write_text("pipeline: qwen3_tts\n", encoding="utf-8")
    with pytest.raises(UsageError, match="another file"):
        write_profile(tts, tmp_path / "new.yaml")
    assert sorted(path.name for path in tmp_path.rglob("*.yaml")) == ["old.yaml", "qwen3_tts.yaml"]


def test_nothing_is_left_where_the_profile_cannot_be_written(tts: Migration, tmp_path: Path) -> None:
    target = tmp_path / "new.yaml"
    target.mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write_profile(tts, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.yaml", "old.yaml"]


# ------------------------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pipeline: qwen3_tts\n", "removed-schema"),
        ("stage_args: []\n", "wrong-container"),
        ("stage_args: 3\n", "wrong-container"),
        ("stage_args: [3]\n", "wrong-container"),
        ("stage_args: [{engine_args: {}}]\n", "missing-stage-id"),
        ("stage_args: [{stage_id: zero}]\n", "bad-value"),
        ("stage_args: [{stage_id: 0}, {stage_id: 0}]\n", "bad-value"),
        ("stage_args: [{stage_id: 0, engine_args: {model_stage: nobody}}]\n", "no-pipeline"),
        ("stage_args: [{stage_id: 0, engine_args: {model_stage: dit}}]\n", "no-pipeline"),
        ("stage_args: [\n", "yaml-syntax"),
    ],
)
def test_what_cannot_be_migrated_is_refused_with_a_place(text: str, name: str, profile_file: WriteProfile) -> None:
    with pytest.raises(ResolveError) as refused:
        migrate(profile_file(text, "old.yaml"))
    (reason,) = refused.value.diagnostics
    assert reason.name == name
    assert reason.line


def test_a_pipeline_may_be_named(profile_file: WriteProfile) -> None:
    text = "stage_args: [{stage_id: 0, engine_args: {model_stage: dit, enforce_eager: true}}]\n"
    assert migrate(profile_file(text, "old.yaml"), pipeline="hunyuan_image3_dit").pipeline == "hunyuan_image3_dit"
    with pytest.raises(OmnicfgError, match="hunyuan_image3_ditt"):
        migrate(profile_file(text, "old.yaml"), pipeline="hunyuan_image3_ditt")


def plan_of(done: Migration) -> omnicfg.Plan:
    """The plan of the written file, compiled from disk."""
    target = Path(done.target).with_name("migrated.yaml")
    write_profile(done, target)
    return omnicfg.resolve(target, platform=done.platform, pipeline=done.pipeline)


def first_stage(done: Migration) -> StagePlan:
    return plan_of(done).stages[0]
