"""Is speech right? Compares a running server with transformers, answer for answer.

    python -m omnicfg.engine.verify_speech MODEL URL [--together 8] [--name NAME] [--reference FILE] [--media]

``Qwen3OmniMoeForConditionalGeneration.generate`` is the reference: greedy, in float32, one prompt at a time. Of every
prompt the text's tokens and all codes have to be equal, and the waveform to 1e-4 of full scale. Some prompts hold the
token that stands for a sound: there the Talker reads the Thinker's hidden states, which the others never need. All are
asked one after another, again (they hit the prefix cache then, where there is one), and ``--together`` at a time.

``--media`` asks with pictures and sounds in the prompt instead, which go through vLLM's processors on the one side and
transformers' on the other. The server needs what vLLM's multimodal classes need, and so does this program.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import sys
import urllib.request
import wave
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

TOLERANCE: Final = 1e-4
PCM: Final = 32767
SAMPLE_RATE: Final = 16_000
SYSTEM: Final = (
    "You answer the visitors of a small library by the river. It opens at nine and closes at six, on Sundays it stays "
    "closed. The reading room is on the second floor, and the maps are kept in the cellar, where you have to ask."
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of noise, in pixels."""

    width: int
    height: int
    seed: int

    def pixels(self) -> Any:
        """``[height, width, 3]`` of bytes."""
        import numpy as np

        return np.random.RandomState(self.seed).randint(0, 256, (self.height, self.width, 3), dtype=np.uint8)

    def part(self) -> dict[str, Any]:
        """The part of a message that sends it, as a PNG."""
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(self.pixels()).save(file, "PNG")
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_text(file.getvalue())}"}}


@dataclass(frozen=True, slots=True)
class Sound:
    """Noise of so many milliseconds; tens of them, so that both processors see as many mel frames."""

    milliseconds: int
    seed: int

    def samples(self) -> Any:
        """16-bit samples, 16,000 a second."""
        import numpy as np

        count = SAMPLE_RATE * self.milliseconds // 1000
        return (np.random.RandomState(self.seed).randn(count) * 3000).clip(-32768, 32767).astype("<i2")

    def part(self) -> dict[str, Any]:
        """The part of a message that sends it, as a WAV."""
        file = io.BytesIO()
        with wave.open(file, "wb") as writer:
            writer.setnchannels(1)
            writer.setsampwidth(2)
            writer.setframerate(SAMPLE_RATE)
            writer.writeframes(self.samples().tobytes())
        return {"type": "input_audio", "input_audio": {"data": _text(file.getvalue()), "format": "wav"}}


@dataclass(frozen=True, slots=True)
class Case:
    """One request: the user's words behind the media, how many tokens the answer may have, and the voice."""

    user: str
    tokens: int
    voice: str
    media: tuple[Picture | Sound, ...] = ()


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


MEDIA_CASES: Final = (
    Case("What do you see?", 12, "ethan", (Picture(160, 96, 1),)),
    Case("What was that sound?", 14, "chelsie", (Sound(1000, 2),)),
    Case("Which of the two came later?", 20, "aiden", (Picture(64, 128, 3), Sound(730, 4))),
    Case("Listen again, and look twice.", 16, "ethan", (Sound(410, 5), Picture(96, 96, 6), Picture(224, 64, 7))),
    Case("Where do I find the maps?", 9, "chelsie"),
    Case("What do you see? And what is missing?", 11, "aiden", (Picture(160, 96, 1),)),
)


def reference(model: Path, cases: Sequence[Case] = CASES) -> list[Spoken]:
    """What transformers answers; needs torch and transformers 5, and for media what its processors need."""
    whole = load(model)
    return [answer_of(whole, inputs_of(model, case), case.voice, case.tokens) for case in cases]


def load(model: Path) -> Any:
    """All of the model, in transformers."""
    import torch
    from transformers import Qwen3OmniMoeForConditionalGeneration

    whole = Qwen3OmniMoeForConditionalGeneration.from_pretrained(model, dtype=torch.float32).eval()
    # What the Talker's positions ask for where a prompt has pictures and sounds; transformers 5.19 does not give it one
    whole.talker.config.audio_config = whole.config.thinker_config.audio_config
    return whole


def inputs_of(model: Path, case: Case) -> Mapping[str, Any]:
    """A case as transformers' ``generate`` takes it."""
    from transformers import AutoProcessor, AutoTokenizer

    names = {Picture: "image", Sound: "audio"}
    parts = [*({"type": names[type(one)]} for one in case.media), {"type": "text", "text": case.user}]
    asked = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": parts}]
    tokenizer = AutoTokenizer.from_pretrained(model)
    inputs: Mapping[str, Any]
    if not case.media:
        inputs = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        return inputs
    inputs = AutoProcessor.from_pretrained(model)(
        text=tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False),
        images=[one.pixels() for one in case.media if isinstance(one, Picture)] or None,
        audio=[one.samples().astype("float32") / 32768 for one in case.media if isinstance(one, Sound)] or None,
        return_tensors="pt",
    )
    return inputs


def answer_of(whole: Any, inputs: Mapping[str, Any], voice: str, tokens: int) -> Spoken:
    """What ``generate`` says, greedily."""
    decoder, heard = whole.code2wav.chunked_decode, []

    def listen(codes: Any, **options: Any) -> Any:
        heard.append(codes[0].T.tolist())
        return decoder(codes, **options)

    whole.code2wav.chunked_decode = listen
    try:
        said, sound = whole.generate(
            **inputs,
            speaker=voice,
            thinker_max_new_tokens=tokens,
            thinker_do_sample=False,
            thinker_eos_token_id=whole.thinker.generation_config.eos_token_id or [whole.config.im_end_token_id],
            talker_do_sample=False,
            talker_repetition_penalty=1.0,
            talker_max_new_tokens=512,
        )
    finally:
        whole.code2wav.chunked_decode = decoder
    return Spoken(said[0, inputs["input_ids"].shape[1] :].tolist(), heard.pop(), sound.flatten().tolist())


def messages(case: Case) -> list[dict[str, Any]]:
    """The chat of a case."""
    media = [one.part() for one in case.media]
    user: Any = [*media, {"type": "text", "text": case.user}] if media else case.user
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]


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


def compare(url: str, name: str, expected: Sequence[Spoken], together: int, cases: Sequence[Case] = CASES) -> list[str]:
    """Everything that is wrong with the server's answers, one line each."""
    rounds: Mapping[str, int] = {"alone": 1, "again": 1, f"{together} at a time": together}
    found: list[str] = []
    for how, workers in rounds.items():
        with ThreadPoolExecutor(workers) as pool:
            answers = list(pool.map(lambda case: ask(url, case, name), cases))
        for case, answer, right in zip(cases, answers, expected, strict=True):
            if (wrong := difference(answer, right)) is not None:
                found.append(f"{how}: {case.user!r}: {wrong}")
    return found


def kept_reference(model: Path, file: Path | None, cases: Sequence[Case] = CASES) -> list[Spoken]:
    """The reference, from the file where it has been kept, which is written otherwise."""
    if file is not None and file.exists():
        return [Spoken(**one) for one in json.loads(file.read_text(encoding="utf-8"))]
    answers = reference(model, cases)
    if file is not None:
        file.write_text(json.dumps([asdict(answer) for answer in answers]), encoding="utf-8")
    return answers


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where every answer is right."""
    parser = argparse.ArgumentParser(prog="python -m omnicfg.engine.verify_speech", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("url")
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--name", default="tiny-omni", help="what the server calls the model")
    parser.add_argument("--reference", type=Path, help="where to keep the reference")
    parser.add_argument("--media", action="store_true", help="pictures and sounds in the prompts")
    options = parser.parse_args(arguments)
    cases = MEDIA_CASES if options.media else CASES
    expected = kept_reference(options.model, options.reference, cases)
    found = compare(options.url, options.name, expected, options.together, cases)
    for line in found:
        print(line)
    frames = sum(len(answer.codes) for answer in expected)
    print(f"{len(cases)} prompts, {frames} frames of codes, asked 3 times each: {len(found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
