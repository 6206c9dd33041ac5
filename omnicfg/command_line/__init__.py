"""A `vllm serve --omni` command line → what upstream makes of it.

find the command (``find``, with ``shell``) → parse its flags (``parse``) → what they come to on each stage
(``effect``). The flags are data: ``schemas/vllm-omni/0.30.0/flags.json``.
"""
