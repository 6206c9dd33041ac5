"""What the keys of the deploy language mean, for the hover text of editors.

Facts: vllm-omni 0.30.0, ``vllm_omni/config/stage_config.py`` and what reads it; words: ours. Engine args bring their
own text (vLLM's help) and are not repeated here.
"""

from __future__ import annotations

from typing import Final

PROFILE: Final = {
    "base_config": (
        "The profile that this one builds on: a path relative to this file's directory, as written (a symlink is not "
        "resolved, `~` is not expanded). Null: none."
    ),
    "pipeline": (
        "The pipeline that this profile configures. Left out, it is the one whose default deploy file has this file's "
        "name."
    ),
    "async_chunk": (
        "Whether stages hand on their output in chunks while they still produce it. On unless it is set false. A "
        "pipeline of one stage ignores it; two connected stages have to agree on it."
    ),
    "session_mode": (
        "`turn`: a request, then its answer. `duplex`: a session that listens while it speaks; a pipeline without a "
        "duplex plugin serves it as turn all the same."
    ),
    "model_runner": "vLLM's model runner: v1, or v2 (MRv2), which npu and xpu refuse.",
    "active_stream_window": (
        "How many streams a stage that receives chunks keeps active at a time, at most `max_num_seqs`; 0: any number."
    ),
    "duplex_session": "Lifetime and buffers of duplex sessions. A file that sets it replaces its base's as a whole.",
    "connectors": (
        "The connectors that carry data between stages, by a name of your choice. Base and overlay merge deeply here."
    ),
    "edges": "Edges between stages, as a list of `from` and `to`. A file that sets it replaces its base's as a whole.",
    "stages": (
        "The settings of the pipeline's stages, matched by `stage_id`. A stage without an entry runs on defaults; an "
        "entry that matches no stage is dropped."
    ),
    "platforms": "What differs on a platform. Only `model_runner` and `stages` are read from each block.",
    "trust_remote_code": "For every stage: whether code from the checkpoint may run.",
    "distributed_executor_backend": "For every stage: what runs its workers.",
    "dtype": "For every stage: the data type of weights and activations.",
    "quantization": "For every stage: how its weights are quantized.",
    "enable_prefix_caching": "For every stage that does not set its own: whether its prefix cache is on.",
    "enable_chunked_prefill": "For every stage that does not set its own: whether long prompts are prefilled in parts.",
    "data_parallel_size": "For every stage that does not set its own: data-parallel size.",
    "pipeline_parallel_size": "For every stage that does not set its own: pipeline-parallel size.",
    "custom_voice_dir": "The directory of custom voices that a model loads at start, where it has any (Qwen3-TTS).",
}

STAGE: Final = {
    "stage_id": "Which stage of the pipeline this entry configures: a number, without quotes.",
    "devices": 'The devices of this stage, as text: `"0"` or `"0,1"`. One number for each process.',
    "num_replicas": "How many copies of this stage run, each on devices of its own.",
    "env": "Environment variables of this stage's processes. A platform's entries go over these one by one.",
    "async_chunk": "False takes this stage out of the profile's `async_chunk`; true changes nothing.",
    "input_connectors": "Where this stage's input comes from: `from_stage_0: name of a connector`.",
    "output_connectors": "Where this stage's output goes: `to_stage_1: name of a connector`.",
    "default_sampling_params": (
        "Sampling parameters of requests that bring none of their own. Those that the pipeline's topology fixes win "
        "over these."
    ),
    "default_pooling_params": "Pooling parameters of requests that bring none of their own.",
    "subtalker_sampling_params": "Sampling parameters of the model's inner code predictor.",
    "silence_ban_frames": "At how many steps from the start no token of silence may be drawn (Qwen3-TTS); 0: no ban.",
    "engine_args": (
        "Engine args as a block of their own; each wins over the same key of the stage. In a platform's entry the "
        "block hides all keys beside it."
    ),
    "engine_extras": (
        "Engine args that win over the stage's own keys where the deploy schema knows them, and give way to them where "
        "it does not."
    ),
    "runtime": "`devices`, `num_replicas` and `env` as a block; each wins over the same key of the stage.",
}

DUPLEX: Final = {
    "idle_ttl_s": "Seconds after which a session without input ends. Null: never.",
    "disconnect_grace_s": "Seconds for which a session outlives its connection.",
    "reaper_interval_s": "Seconds between two searches for sessions that are over.",
    "resume_replay_ttl_s": "Seconds for which output is kept for a client that comes back.",
    "resume_replay_max_bytes_per_session": "Bytes of output kept for a client that comes back.",
    "max_pending_input_bytes_per_session": "Bytes of input that may wait in a session.",
    "max_pending_turns_per_session": "Turns that may wait in a session.",
    "max_sessions": "Sessions at a time.",
    "completed_append_cache_size": "Read by nothing in vllm-omni 0.30.0; has to be positive all the same.",
    "server_vad_model_path": "A Silero model (ONNX) that finds speech on the server. Null: one that is installed.",
    "warmup_frames": (
        "Silent frames that a model of audio runs before the first client; 0: none. Below 0 nothing at all is "
        "warmed up."
    ),
}

CONNECTOR: Final = {
    "name": "The connector's class.",
    "extra": "Settings of the connector, and of the models and adapters that read through it. Free-form.",
}

EDGE: Final = {"from": "The stage that sends.", "to": "The stage that receives."}

PLATFORM: Final = {
    "model_runner": "The model runner on this platform.",
    "stages": (
        "What this platform changes in each stage. One level deep for sampling parameters, `engine_args`, "
        "`engine_extras` and `env`; everything else is replaced."
    ),
}
