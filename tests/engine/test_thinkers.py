"""Extending vLLM's model classes by payload rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the classes are vLLM's")
pytestmark = pytest.mark.slow  # importing vLLM takes ten seconds

from torch import nn  # noqa: E402
from vllm.distributed.kv_transfer import has_kv_transfer_group, kv_transfer_state  # noqa: E402
from vllm.model_executor.models import ModelRegistry  # noqa: E402

from omnicfg.engine import thinkers  # noqa: E402
from omnicfg.engine.plugin import register  # noqa: E402
from omnicfg.engine.spec import PayloadRows  # noqa: E402
from omnicfg.engine.thinkers import KeepsPayloadRows, with_payload_rows  # noqa: E402


class Recorder:
    """Notes that rows were to be kept, instead of building a layer."""

    kept: str = ""

    def _keep_rows(self, vllm_config: Any, prefix: str) -> None:
        self.kept = f"{vllm_config} {prefix}"


class Plain(Recorder, nn.Module):  # type: ignore[misc]
    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        super().__init__()


class Version45(Plain):
    pass


class Dispatching(Plain):
    def __new__(cls, *, vllm_config: Any, prefix: str = "") -> Any:
        return Version45(vllm_config=vllm_config, prefix=prefix)


class Cooperative(Plain):
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls)


@pytest.fixture(autouse=True)
def no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeepsPayloadRows, "_keep_rows", Recorder._keep_rows)


class Layered(Plain):
    """Tells whether its layers see a KV connector, or fails."""

    _payload = PayloadRows((1,), final=True)
    seen: bool | None = None

    def __init__(self, **_: Any) -> None:
        super().__init__(vllm_config="config")
        self.payload_rows = SimpleNamespace(write=lambda rows: None)

    def forward(self, fail: bool) -> tuple[str, list[str]]:
        self.seen = has_kv_transfer_group()
        if fail:
            raise RuntimeError("no memory")
        return "hidden", ["between"]


def test_layers_do_not_ask_for_the_connector_which_is_there_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_transfer_state, "_KV_CONNECTOR_AGENT", connector := object())
    model: Any = with_payload_rows(Layered)(vllm_config="config")
    assert model(fail=False) == "hidden"
    assert model.seen is False
    assert kv_transfer_state._KV_CONNECTOR_AGENT is connector
    with pytest.raises(RuntimeError, match="no memory"):
        model(fail=True)
    assert kv_transfer_state._KV_CONNECTOR_AGENT is connector


@pytest.mark.parametrize("base", [Plain, Cooperative])
def test_a_class_is_extended_in_front_of_its_own_methods(base: type[nn.Module]) -> None:
    model: Any = with_payload_rows(base)(vllm_config="config", prefix="p")  # type: ignore[arg-type]
    assert isinstance(model, KeepsPayloadRows)
    assert isinstance(model, base)
    assert model.kept == "config p"


def test_a_class_that_builds_another_one_is_extended_too() -> None:
    model: Any = with_payload_rows(Dispatching)(vllm_config="config", prefix="p")
    assert isinstance(model, KeepsPayloadRows)
    assert isinstance(model, Version45)
    assert model.kept == "config p"


def test_a_class_is_extended_once() -> None:
    assert with_payload_rows(Plain) is with_payload_rows(Plain)


def test_every_architecture_gets_a_name_and_no_model_is_imported() -> None:
    before = set(ModelRegistry.get_supported_archs())
    register()
    register()
    after = set(ModelRegistry.get_supported_archs())
    own = {name for name in before if not name.startswith("Payload")}
    assert after == own | {f"Payload{name}" for name in own}


def test_a_registered_name_gives_the_extended_class() -> None:
    register()
    model: Any = ModelRegistry.models["PayloadQwen3MoeForCausalLM"].load_model_cls()
    assert issubclass(model, KeepsPayloadRows)
    assert model.__mro__[2] is ModelRegistry.models["Qwen3MoeForCausalLM"].load_model_cls()


def test_a_name_that_vllm_does_not_know_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="PayloadNonsense"):
        _ = thinkers.PayloadNonsense
