"""The code predictor against transformers', and its noise."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers", reason="the reference is transformers")
pytestmark = pytest.mark.slow  # importing torch and transformers takes ten seconds

import torch  # noqa: E402

from omnicfg.engine.speech.kernels import TOP_K, sample  # noqa: E402
from omnicfg.engine.speech.predictor import CodePredictor, Shape, gumbel  # noqa: E402

CONFIG: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "num_code_groups": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
}


@pytest.fixture(scope="module")
def reference() -> Any:
    from transformers.models.qwen3_omni_moe import configuration_qwen3_omni_moe as configurations
    from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as models

    torch.manual_seed(3)
    config = configurations.Qwen3OmniMoeTalkerCodePredictorConfig(**CONFIG, attn_implementation="eager")
    model = models.Qwen3OmniMoeTalkerCodePredictorModelForConditionalGeneration(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.2)
    return model.eval()


@pytest.fixture(scope="module")
def predictor(reference: Any) -> CodePredictor:
    ours = CodePredictor(Shape.of(CONFIG))
    ours.load(reference.state_dict().items())
    return ours


def expected(reference: Any, hidden: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
    codes = []
    output = reference(inputs_embeds=torch.stack((hidden, embedded), 1), use_cache=True)
    for _ in range(CONFIG["num_code_groups"] - 1):
        codes.append(output.logits[:, -1].argmax(-1))
        if len(codes) == CONFIG["num_code_groups"] - 1:
            break
        output = reference(
            input_ids=codes[-1][:, None],
            past_key_values=output.past_key_values,
            use_cache=True,
            generation_steps=output.generation_steps,
        )
    return torch.stack(codes, 1)


@pytest.mark.parametrize("requests", [1, 5])
def test_codes_are_those_of_transformers(reference: Any, predictor: CodePredictor, requests: int) -> None:
    torch.manual_seed(requests)
    hidden, embedded = torch.randn(2, requests, CONFIG["hidden_size"])
    with torch.inference_mode():
        assert torch.equal(predictor(hidden, embedded), expected(reference, hidden, embedded))


def test_a_tensor_that_is_missing_or_left_over_is_named(reference: Any) -> None:
    tensors = dict(reference.state_dict())
    with pytest.raises(ValueError, match="no use for surplus"):
        CodePredictor(Shape.of(CONFIG)).load([*tensors.items(), ("surplus", torch.zeros(1))])
    del tensors["model.norm.weight"]
    with pytest.raises(ValueError, match=r"no code_predictor\.model\.norm\.weight"):
        CodePredictor(Shape.of(CONFIG)).load(tensors.items())


def test_sampled_codes_follow_the_shares_of_what_is_kept() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -8.0] + [-20.0] * 60])
    shares = logits.softmax(-1)[0]
    draws = torch.arange(TOP_K)
    count = 20_000
    noise = gumbel(torch.full((count,), 11), torch.arange(count), draws)
    assert abs(noise.mean().item() - 0.5772) < 0.01  # Euler's constant
    seen = sample(logits.expand(count, -1), noise).bincount(minlength=64) / count
    kept = shares[:2] / shares[:2].sum()  # 0.67 + 0.24 reach 0.8, the rest is cut off
    assert torch.allclose(seen[:2].double(), kept.double(), atol=0.02)
    assert seen[2:].sum() == 0


def test_noise_belongs_to_a_seed_and_a_frame() -> None:
    draws = torch.arange(7 * TOP_K).view(7, TOP_K)
    together = gumbel(torch.tensor([5, 6, 5]), torch.tensor([0, 0, 1]), draws)
    alone = gumbel(torch.tensor([5]), torch.tensor([1]), draws)
    assert torch.equal(together[2], alone[0])
    assert together.shape == (3, 7, TOP_K)
    assert not torch.equal(together[0], together[1])
