"""Is speech right? Compares a running server with transformers, answer for answer.

    python -m omnicfg.engine.verify_speech MODEL URL [--together 8] [--name NAME] [--reference FILE]

``Qwen3OmniMoeForConditionalGeneration.generate`` is the reference: greedy, in float32, one prompt at a time. Of every
prompt the text's tokens and all codes have to be equal, and the waveform to 1e-4 of full scale. Some prompts hold the
token that stands for a sound: there the Talker reads the Thinker's hidden states, which the others never need. All are
asked one after another, again (they hit the prefix cache then, where there is one), and ``--together`` at a time.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

TOLERANCE: Final = 1e-4
PCM: Final = 32767
SYSTEM: Final = (
    "You answer the visitors of a small library by the river. It opens at nine and closes at six, on Sundays it stays "
    "closed. The reading room is on the second floor, and the maps are kept in the cellar, where you have to ask."
)


@dataclass(frozen=True, slots=True)
class Case:
    """One request: the user's words, how many tokens the answer may have, and the voice."""

    user: str
    tokens: int
    voice: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """One answer: text tokens, frames of codes, samples at full scale 1."""

    text: list[int]
    codes: list[list[int]]
    wave: list[float]


CASES: Final = (
    Case("What time does the library open?", 12, "ethan"),
    Case(f"Listen: <|audio_pad|><|audio_pad|><|audio_pad|> What was it? And is it true that {SYSTEM}", 20, "chelsie"),
    Case("Where do I find the maps?", 33, "aiden"),
    Case("<|audio_pad|>", 9, "ethan"),
    Case("Tell me a long story about bees, honey and the sea.", 48, "chelsie"),
    Case("Say yes.", 2, "ethan"),
    Case("Is this <|image_pad|><|image_pad|> a house or a train <|audio_pad|>?", 27, "aiden"),
    Case("Who wrote three letters and sent none of them?", 16, "chelsie"),
)


def reference(model: Path, cases: Sequence[Case] = CASES) -> list[Spoken]:
    """What transformers answers; needs torch and transformers 5."""
    import torch
    from transformers import AutoTokenizer, Qwen3OmniMoeForConditionalGeneration

    whole = Qwen3OmniMoeForConditionalGeneration.from_pretrained(model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    decoder, heard = whole.code2wav.chunked_decode, []

    def listen(codes: torch.Tensor, **options: Any) -> torch.Tensor:
        heard.append(codes[0].T.tolist())
        wave: torch.Tensor = decoder(codes, **options)
        return wave

    whole.code2wav.chunked_decode = listen
    answers = []
    for case in cases:
        ids = tokenizer.apply_chat_template(
            messages(case), add_generation_prompt=True, return_tensors="pt", return_dict=True
        )["input_ids"]
        tokens, wave = whole.generate(
            input_ids=ids,
            speaker=case.voice,
            thinker_max_new_tokens=case.tokens,
            thinker_do_sample=False,
            thinker_eos_token_id=whole.thinker.generation_config.eos_token_id or [whole.config.im_end_token_id],
            talker_do_sample=False,
            talker_repetition_penalty=1.0,
            talker_max_new_tokens=512,
        )
        answers.append(Spoken(tokens[0, ids.shape[1] :].tolist(), heard.pop(), wave.flatten().tolist()))
    return answers


def messages(case: Case) -> list[dict[str, str]]:
    """The chat of a case."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": case.user}]


def ask(url: str, case: Case, name: str) -> Spoken:
    """What the server answers. Raises :class:`OSError` where it does not."""
    body = {
        "model": name,
        "messages": messages(case),
        "max_tokens": case.tokens,
        "temperature": 0,
        "modalities": ["text", "audio"],
        "audio": {"voice": case.voice, "format": "pcm16"},
        "return_token_ids": True,
    }
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=300) as response:
        [choice] = json.load(response)["choices"]
    audio = choice["message"]["audio"]
    pcm = memoryview(base64.b64decode(audio["data"])).cast("h")
    return Spoken(choice["token_ids"], audio["token_ids"], [sample / PCM for sample in pcm])


def difference(answer: Spoken, expected: Spoken) -> str | None:
    """What is wrong with an answer; ``None`` where nothing is."""
    if answer.text != expected.text:
        return f"text {answer.text} instead of {expected.text}"
    if answer.codes != expected.codes:
        pairs = zip(answer.codes, expected.codes, strict=False)
        first = next((number for number, (one, other) in enumerate(pairs) if one != other), "the last one in common")
        return f"codes differ from frame {first}: {len(answer.codes)} frames instead of {len(expected.codes)}"
    if len(answer.wave) != len(expected.wave):
        return f"{len(answer.wave)} samples instead of {len(expected.wave)}"
    worst = max((abs(one - other) for one, other in zip(answer.wave, expected.wave, strict=True)), default=0.0)
    return f"the waveform is off by {worst:.1e}" if worst > TOLERANCE else None


def compare(url: str, name: str, expected: Sequence[Spoken], together: int) -> list[str]:
    """Everything that is wrong with the server's answers, one line each."""
    rounds: Mapping[str, int] = {"alone": 1, "again": 1, f"{together} at a time": together}
    found: list[str] = []
    for how, workers in rounds.items():
        with ThreadPoolExecutor(workers) as pool:
            answers = list(pool.map(lambda case: ask(url, case, name), CASES))
        for case, answer, right in zip(CASES, answers, expected, strict=True):
            if (wrong := difference(answer, right)) is not None:
                found.append(f"{how}: {case.user!r}: {wrong}")
    return found


def kept_reference(model: Path, file: Path | None) -> list[Spoken]:
    """The reference, from the file where it has been kept, which is written otherwise."""
    if file is not None and file.exists():
        return [Spoken(**one) for one in json.loads(file.read_text(encoding="utf-8"))]
    answers = reference(model)
    if file is not None:
        file.write_text(json.dumps([asdict(answer) for answer in answers]), encoding="utf-8")
    return answers


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where every answer is right."""
    parser = argparse.ArgumentParser(prog="python -m omnicfg.engine.verify_speech", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("url")
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--name", default="tiny-omni", help="what the server calls the model")
    parser.add_argument("--reference", type=Path, help="where to keep the reference")
    options = parser.parse_args(arguments)
    expected = kept_reference(options.model, options.reference)
    found = compare(options.url, options.name, expected, options.together)
    for line in found:
        print(line)
    frames = sum(len(answer.codes) for answer in expected)
    print(f"{len(CASES)} prompts, {frames} frames of codes, asked 3 times each: {len(found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
