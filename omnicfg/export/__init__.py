"""Makes the data under ``schemas/`` from an installed vllm-omni or vllm.

The only modules of omnicfg (with the bundled engine) that import vLLM; run by hand when upstream releases:
``python -m omnicfg.export.vllm_omni --out schemas/vllm-omni``.
"""
