"""The vLLM plugin (entry point ``vllm.general_plugins``): loaded in every process of an engine.

It adds names to vLLM's model registry, for models that nobody loads unless engine args say so. Where `omnicfg serve`
asks for it, it lets vLLM resample sounds where it could not otherwise, or say what is missing, and has vLLM's workers
leave stop signals to their engine. A vLLM that serves something else is not touched.
"""

from __future__ import annotations

import os


def register() -> None:
    """Register ``PayloadFoo`` for every architecture ``Foo`` that vLLM can serve; imports no model. Idempotent."""
    from vllm.model_executor.models import ModelRegistry

    from omnicfg.engine import sounds, stop_signals
    from omnicfg.engine.spec import ARCHITECTURE_PREFIX, payload_architecture

    for architecture in list(ModelRegistry.get_supported_archs()):
        if not architecture.startswith(ARCHITECTURE_PREFIX):
            name = payload_architecture(architecture)
            ModelRegistry.register_model(name, f"omnicfg.engine.thinkers:{name}")
    if os.environ.get(sounds.VARIABLE):
        sounds.do_without()
    if os.environ.get(stop_signals.VARIABLE):
        stop_signals.leave_to_engine()
