"""From the ``stage_args`` files of vLLM-Omni 0.14 to 0.20 to profiles of today, one pass a module.

read (``old_file``) → recognise the pipeline → map each setting to its fate → choose a base → minimise (``overlay``)
→ write with comments (``emit``) → prove what was written (``run``, ``write``). What became of each key is data:
``schemas/vllm-omni/stage_args.json``.
"""
