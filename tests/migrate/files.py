"""Stage configs of the old schema, in the shapes that people wrote them in."""

from typing import Final

TTS: Final = """\
# Our voice server, tuned for one small card.
async_chunk: true
stage_args:
  # The talker.
  - stage_id: 0
    stage_type: llm
    is_comprehension: true
    runtime:
      process: true
      devices: "0"
      max_batch_size: 4  # as many as fit
    engine_args:
      model_stage: qwen3_tts
      model_arch: Qwen3TTSTalkerForConditionalGeneration
      worker_type: ar
      scheduler_cls: vllm_omni.core.sched.omni_ar_scheduler.OmniARScheduler
      # Leaves room for the desktop.
      gpu_memory_utilization: 0.25
      enable_prefix_caching: false
      engine_output_type: latent
    output_connectors:
      to_stage_1: shm
    default_sampling_params:
      temperature: 0.7  # calmer than the default
      detokenize: false
      stop_token_ids: [2150]
  - stage_id: 1
    runtime:
      devices: "0"
    engine_args:
      model_stage: code2wav
      model_arch: Qwen3TTSCode2Wav
      worker_type: generation
      gpu_memory_utilization: 0.2
    engine_input_source: [0]
    input_connectors:
      from_stage_0: shm
    final_output: true
    final_output_type: audio
    tts_args:
      max_instructions_length: 500
runtime:
  enabled: true
  defaults: {window_size: -1, max_inflight: 1}
  connectors:
    # Everything on one machine.
    shm:
      name: SharedMemoryConnector
      extra:
        shm_threshold_bytes: 65536
        codec_chunk_frames: 20
  edges:
    - {from: 0, to: 1, window_size: -1}
"""

SPLIT: Final = """\
stage_args:
  - stage_id: 0
    is_prefill_only: true
    runtime: {devices: "0"}
    engine_args:
      model_stage: thinker
      model_arch: Qwen3OmniMoeForConditionalGeneration
      kv_transfer_config: {kv_connector: MooncakeConnector, kv_role: kv_producer}
    final_output: false
  - stage_id: 1
    is_decode_only: true
    runtime: {devices: "1"}
    engine_args:
      model_stage: thinker
      model_arch: Qwen3OmniMoeForConditionalGeneration
      max_model_len: 8192
      kv_transfer_config: {kv_connector: MooncakeConnector, kv_role: kv_consumer}
    engine_input_source: [0]
    final_output: true
    final_output_type: text
    output_connectors:
      to_stage_2: {name: SharedMemoryConnector, extra: {codec_chunk_frames: 10}}
  - stage_id: 2
    runtime: {devices: "2"}
    engine_args:
      model_stage: talker
      model_arch: Qwen3OmniMoeForConditionalGeneration
    engine_input_source: [1]
    custom_process_input_func: vllm_omni.model_executor.stage_input_processors.qwen3_omni.thinker2talker
  - stage_id: 3
    runtime: {devices: "2"}
    engine_args:
      model_stage: code2wav
      model_arch: Qwen3OmniMoeForConditionalGeneration
    engine_input_source: [2]
    final_output: true
    final_output_type: audio
"""

OMNI: Final = """\
stage_args:
  - stage_id: 0
    runtime: {devices: 0, num_replicas: 2, env: {OMP_NUM_THREADS: "4"}}
    engine_args:
      model_stage: thinker
      model_arch: Qwen2_5OmniForConditionalGeneration
      # Only where the cluster says so.
      max_model_len: ${oc.decode:${oc.env:MAX_LEN,4096}}
      gpu_memory_utilisation: 0.8
      compilation_config:
        # The graph of the encoder does not capture.
        cudagraph_mode: PIECEWISE
        custom_ops: ["+rms_norm"]  # faster here
    is_comprehension: true
  - stage_id: 1
    runtime: {devices: "1"}
    engine_args:
      model_stage: talker
      model_arch: Qwen2_5OmniForConditionalGeneration
      max_model_len: ${stage_args[0].engine_args.max_model_len}
      worker_cls: our.workers.Talker
    engine_input_source: [0]
    custom_process_input_func: our.processors.thinker2talker
  - stage_id: 2
    runtime: {devices: "1"}
    engine_args:
      model_stage: code2wav
      model_arch: Qwen2_5OmniForConditionalGeneration
    engine_input_source: [1]
    final_output: true
    final_output_type: audio
"""

ALL: Final = {"tts": TTS, "split": SPLIT, "omni": OMNI}
