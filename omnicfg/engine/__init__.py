"""The bundled engine: vLLM with the Thinker's payload rows inside its own paged KV cache.

``spec`` and ``memory`` are pure: they turn a model's record and its ``config.json`` into engine args,
refusals and estimates without importing vLLM. ``transport`` is pure as well: a consumer process needs nothing
but the standard library. ``plugin``, ``thinkers``, ``paged_rows``, ``gather`` and ``metrics`` are loaded by
vLLM through the entry point ``vllm.general_plugins``.
"""
