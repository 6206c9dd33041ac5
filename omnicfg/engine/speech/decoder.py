"""What a Talker adds to vLLM's decoder: the code predictor, and the state a frame's first code was sampled from.

``SpeechFoo`` is an attribute of this module for every architecture ``Foo`` that vLLM knows; it is made on first use. No
model is named here: which tensors of a checkpoint are whose comes from ``additional_config`` under ``CONFIG_KEY``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional
from vllm.compilation.wrapper import TorchCompileWithNoGuardsWrapper
from vllm.config import VllmConfig
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbeddingBase
from vllm.model_executor.models import ModelRegistry

from omnicfg.engine.architectures import extended
from omnicfg.engine.speech.predictor import CodePredictor, Shape

ARCHITECTURE_PREFIX: Final = "Speech"
CONFIG_KEY: Final = "speech"
_PREDICTOR: Final = "code_predictor."
_OWN: Final = (_PREDICTOR, "text_projection.", "hidden_projection.")


class Resize(nn.Module):
    """A projection of the Thinker's states to the Talker's, named as in the checkpoint."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(inputs, width)
        self.linear_fc2 = nn.Linear(width, outputs)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        projected: torch.Tensor = self.linear_fc2(functional.silu(self.linear_fc1(states)))
        return projected


class Speaks:
    """Mixin in front of a vLLM decoder class. Needs Model Runner V2, which asks it for its model state."""

    code_predictor: CodePredictor
    text_projection: Resize
    hidden_projection: Resize
    text_embeddings: nn.Embedding
    sampled_from: torch.Tensor
    """The states (``[requests, hidden]``) that this step's first codes are sampled from."""
    supports_mrope: Final = True
    placed: tuple[torch.Tensor, int] | None = None
    """``Utterance.places`` of the request whose positions vLLM asks for next."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)  # type: ignore[call-arg]
        _count_tokens_last(self)
        if not vllm_config.use_v2_model_runner:
            raise ValueError("a Talker needs vLLM's Model Runner V2")
        own = vllm_config.additional_config[CONFIG_KEY]
        self._part: Mapping[str, Any] = own["part"]
        self.code_predictor = CodePredictor(Shape.of(own["predictor"]))
        hidden = vllm_config.model_config.get_hidden_size()
        vocabulary, states = own["text"]
        self.text_projection = Resize(states, own["width"], hidden)
        self.hidden_projection = Resize(states, own["width"], hidden)
        self.text_embeddings = nn.Embedding(vocabulary, states)
        silent = torch.zeros(vllm_config.model_config.get_vocab_size())
        silent[own["silent"]] = float("-inf")
        self.silent = nn.Buffer(silent, persistent=False)

    @staticmethod
    def get_model_state_cls() -> type:
        """vLLM's hook for a model's own state."""
        from omnicfg.engine.speech.state import SpeechState

        return SpeechState

    def get_mrope_input_positions(
        self,
        input_tokens: Sequence[int],
        mm_features: Sequence[Any],  # noqa: ARG002 - vLLM's interface
    ) -> tuple[torch.Tensor, int]:
        """Positions ``[3, tokens]`` of a prompt and of the frames that a preempted request has spoken already, and by
        how much a frame to come stands ahead of its place.
        """
        places, ahead = self.placed or (torch.empty(3, 0, dtype=torch.int64), 0)
        following = torch.arange(places.shape[1], len(input_tokens)) + ahead
        return torch.cat((places, following.expand(3, -1)), dim=1), ahead

    @property
    def reach(self) -> int:
        """Positions from 0 on that the decoder has angles for; it would read others out of bounds."""
        modules: Iterable[nn.Module] = self.modules()  # type: ignore[attr-defined]
        return min(int(module.max_position_embeddings) for module in modules if isinstance(module, RotaryEmbeddingBase))

    def read_text(self, tokens: torch.Tensor) -> torch.Tensor:
        """Text tokens ``[tokens]`` as the decoder reads them, ``[tokens, hidden]``."""
        return self.text_projection(self.text_embeddings(tokens))

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Logits of the first codebook; codes that are never said have none. Called just before sampling."""
        self.sampled_from = hidden_states
        logits: torch.Tensor = super().compute_logits(hidden_states)  # type: ignore[misc]
        return logits + self.silent

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        """Of a checkpoint of several models, what the Talker needs."""
        own: dict[str, torch.Tensor] = {}
        loaded: set[str] = super().load_weights(self._of_decoder(weights, own))  # type: ignore[misc]
        predictor = {name.removeprefix(_PREDICTOR): own.pop(name) for name in list(own) if name.startswith(_PREDICTOR)}
        self.code_predictor.load(predictor.items())
        for name, tensor in own.items():
            self.get_parameter(name).data.copy_(tensor)  # type: ignore[attr-defined]
        names = [name for name, _ in self.named_parameters()]  # type: ignore[attr-defined]
        return loaded | {name for name in names if name in own or name.startswith(_PREDICTOR)}

    def _of_decoder(
        self, weights: Iterable[tuple[str, torch.Tensor]], own: dict[str, torch.Tensor]
    ) -> Iterable[tuple[str, torch.Tensor]]:
        prefix, names = self._part["weights"], self._part["names"]
        for full_name, tensor in weights:
            if full_name == self._part["embeddings"]:
                own["text_embeddings.weight"] = tensor
            if not full_name.startswith(prefix):
                continue
            name = full_name.removeprefix(prefix)
            if name.startswith(_OWN):
                own[name] = tensor
            else:
                module, _, rest = name.rpartition(".")
                yield f"{names.get(module, module)}.{rest}", tensor


def _count_tokens_last(decoder: Any) -> None:
    """Have the decoder compiled for any number of tokens, whether ``positions`` is ``[tokens]`` or ``[3, tokens]``.

    vLLM's ``support_torch_compile`` takes the first axis for the one that varies where a class does not say otherwise,
    as its multimodal decoders do; what it goes by is this very dictionary (0.32.0).
    """
    for module in decoder.modules():
        if isinstance(module, TorchCompileWithNoGuardsWrapper):
            varying = getattr(module, "_dynamic_arg_dims", {})  # there is none where nothing is compiled
            if "positions" in varying:
                varying["positions"] = -1


@cache
def speaking(base: type[nn.Module]) -> type[nn.Module]:
    """``base``, extended by a code predictor."""
    members = {"__module__": __name__, "__doc__": f"{base.__name__} that speaks."}
    return type(ARCHITECTURE_PREFIX + base.__name__, (Speaks, base), members)


def register(architecture: str) -> str:
    """Make ``architecture``, extended by a code predictor, known to vLLM in this process; its name."""
    name = ARCHITECTURE_PREFIX + architecture
    ModelRegistry.register_model(name, f"{__name__}:{name}")
    return name


__getattr__ = extended(__name__, ARCHITECTURE_PREFIX, speaking)
