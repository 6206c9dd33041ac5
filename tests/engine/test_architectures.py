"""An extended class is an attribute of the module that extends it, for every architecture that vLLM knows."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="the classes are vLLM's")
pytestmark = pytest.mark.slow  # importing vLLM takes ten seconds

from omnicfg.engine import thinkers  # noqa: E402
from omnicfg.engine.architectures import extended  # noqa: E402
from omnicfg.engine.speech import decoder  # noqa: E402


@pytest.mark.parametrize(
    ("module", "name", "mixin"),
    [(thinkers, "PayloadQwen3ForCausalLM", "KeepsPayloadRows"), (decoder, "SpeechQwen3ForCausalLM", "Speaks")],
)
def test_a_module_has_what_it_extends(module: object, name: str, mixin: str) -> None:
    found = getattr(module, name)
    assert [parent.__name__ for parent in found.__mro__[:3]] == [name, mixin, "Qwen3ForCausalLM"]


@pytest.mark.parametrize("name", ["ExtendedNonsense", "Qwen3ForCausalLM", "__path__"])
def test_it_has_no_other_attributes(name: str) -> None:
    attribute = extended("somewhere", "Extended", lambda base: base)
    with pytest.raises(AttributeError, match=f"module 'somewhere' has no attribute '{name}'"):
        attribute(name)
