"""The tiny models: the same bytes every time, a real tokenizer, weights that a real implementation accepts."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnicfg.models import tiny_omni, tiny_thinker
from omnicfg.models._tokenizer import ROLES, SPECIAL_TOKENS


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny-omni")
    tiny_omni.write(directory)
    return directory


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(checkpoint / "tokenizer.json"))


def digests(directory: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.iterdir())}


def test_every_run_writes_the_same_bytes(checkpoint: Path, tmp_path: Path) -> None:
    program = "import sys, pathlib; from omnicfg.models import tiny_omni; tiny_omni.write(pathlib.Path(sys.argv[1]))"
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "RAYON_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment)
    assert digests(tmp_path) == digests(checkpoint)


@pytest.mark.parametrize(
    ("recipe", "digest"),
    [
        (tiny_omni, "3:9a121460c37e0bd353d0c22d8c397a0237eedee03f1a53ccf99e60938611d035"),
        (tiny_thinker, "2:5bc0181b2212e6b70c66a74b031a5bc4f30fc86dc24a86e3bf93b3dc6e7502cd"),
    ],
)
def test_a_recipe_that_writes_other_bytes_has_another_version(recipe: Any, digest: str, tmp_path: Path) -> None:
    """Users keep what an earlier version made: bump ``VERSION`` with every change, and write the new digest here."""
    recipe.write(tmp_path)
    everything = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert digest == f"{recipe.VERSION}:{hashlib.sha256(everything).hexdigest()}"


def test_the_files_are_those_of_a_published_checkpoint(checkpoint: Path) -> None:
    assert set(digests(checkpoint)) == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "video_preprocessor_config.json",
    }


def test_the_tokenizer_fills_the_vocabulary(checkpoint: Path, tokenizer: Any) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    assert tokenizer.get_vocab_size() == config["thinker_config"]["text_config"]["vocab_size"]
    assert tokenizer.token_to_id("<|im_end|>") == config["im_end_token_id"]
    assert tokenizer.token_to_id("<|audio_pad|>") == config["thinker_config"]["audio_token_id"]
    assert tokenizer.token_to_id("<tts_pad>") == config["tts_pad_token_id"]
    alphabet = [tokenizer.id_to_token(number) for number in range(tiny_omni.RAW_BYTES)]
    assert all(len(token) == 1 for token in alphabet), "the first entries are the single bytes"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=st.text())
def test_any_text_survives_the_tokenizer(text: str, tokenizer: Any) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("role", ROLES)
def test_a_turn_begins_with_two_tokens_that_tell_whose_it_is(role: str, tokenizer: Any) -> None:
    ids = tokenizer.encode(f"<|im_start|>{role}\nhello {role}s<|im_end|>").ids
    assert ids[:2] == [tokenizer.token_to_id("<|im_start|>"), tiny_omni.token(role)]
    assert ids[-1] == tokenizer.token_to_id("<|im_end|>")
    assert ids.count(tiny_omni.token(role)) == 1, "not inside another word"


def test_every_special_token_has_the_id_that_the_configuration_counts_with(tokenizer: Any) -> None:
    assert all(tokenizer.token_to_id(name) == tiny_omni.token(name) for name in (*SPECIAL_TOKENS, *ROLES))


def test_weights_are_finite_and_of_a_trained_models_scale(checkpoint: Path) -> None:
    import numpy as np
    from safetensors.numpy import load_file

    weights = load_file(checkpoint / "model.safetensors")
    assert {name: tensor.shape for name, tensor in weights.items()} == dict(tiny_omni.parameters())
    assert all(np.isfinite(tensor).all() for tensor in weights.values())
    down = weights["thinker.model.layers.0.mlp.experts.0.down_proj.weight"]
    assert down.std() == pytest.approx(tiny_omni.EXPERT_WIDTH**-0.5, rel=0.05)


def test_the_thinker_alone_has_the_same_weights(checkpoint: Path, tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import load_file

    tiny_thinker.write(tmp_path)
    whole, alone = load_file(checkpoint / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert all(np.array_equal(tensor, whole[f"thinker.{name}"]) for name, tensor in alone.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "kind"), [(tiny_omni, "Qwen3OmniMoeForConditionalGeneration"), (tiny_thinker, "AutoModelForCausalLM")]
)
def test_transformers_loads_every_weight(recipe: Any, kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="comes with the extra cpu or cuda")
    recipe.write(tmp_path)
    _, report = getattr(transformers, kind).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[trouble] for trouble in ("missing_keys", "unexpected_keys", "mismatched_keys")), report


@pytest.mark.slow
def test_activations_are_of_a_trained_models_range(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="comes with the extra cpu or cuda")
    transformers = pytest.importorskip("transformers", reason="comes with the extra cpu or cuda")
    tiny_thinker.write(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What time does the library open?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    with torch.no_grad():
        output = model(**prompt, output_hidden_states=True)
    spreads = [state.std().item() for state in output.hidden_states]
    assert all(0.3 < spread < 5 for spread in spreads), spreads
    assert output.logits.std().item() > 0.3
