"""Code2Wav: codec frames to a waveform, chunk by chunk, equal to decoding them all at once.

Transformers' module has two halves. A transformer with a sliding window comes first: what a chunk needs of the past are
the last window's keys and values, which are kept for each request. Convolutions follow: they see a few frames back, so
that many outputs of the transformer are kept and computed again in front of the chunk, and the samples that belong to
them are left out. Both are exact; nothing is faded or averaged.

The transposed convolutions cut their output at both ends, so ``n`` frames make ``n * frame_samples - missing`` samples,
and the samples of a chunk begin ``missing`` before its first frame. Decoding fewer frames gives the same samples, only
fewer of them: that is why chunks can be handed on as they come. (``chunked_decode`` in transformers, of which
``generate`` makes use beyond 300 frames, leaves these samples out at every chunk and cuts the window off.)

On CUDA all sizes are captured as graphs before the first request, up to as many requests at once as the stage's share
of the memory (``gpu_memory_utilization``) has room for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

import numpy as np
import torch
from torch import nn

from omnicfg.engine.memory import DEFAULT_UTILIZATION
from omnicfg.engine.stages import Chunk, Ended, Executor, StageOptions, _batches
from omnicfg.engine.stages._graphs import Graphs
from omnicfg.engine.stages._weights import part
from omnicfg.engine.transport import Media, RowLayout

PCM = 32767
"""Full scale of the 16-bit samples that are handed on."""


def make(options: StageOptions) -> Executor:
    """The executor, its weights loaded."""
    return Code2Wav(options)


@dataclass(slots=True, eq=False)
class _Voice:
    """One request: frames that wait, and what the next chunk needs of those before it."""

    key: str
    waiting: list[np.ndarray] = field(default_factory=list)
    received: int = 0
    total: int | None = None
    done: int = 0
    past: torch.Tensor | None = None
    context: torch.Tensor | None = None

    @property
    def pending(self) -> int:
        return self.received - self.done


class Code2Wav:
    """See the module. Rows are samples: one channel of 16-bit PCM."""

    def __init__(self, options: StageOptions) -> None:
        self._options = options
        self._device = options.device
        self._dtype: torch.dtype = getattr(torch, options.dtype)
        self._module: Any = part(options.model, options.record, self._dtype, options.device, dummy=options.dummy)
        config = self._module.config
        self._codebooks = int(config.num_quantizers)
        self._window = int(config.sliding_window)
        self._layers = int(config.num_hidden_layers)
        self._frame = int(prod((*config.upsample_rates, *config.upsampling_ratios)))
        self._missing = self._missing_samples()
        self._context = max(options.context, self._frames_seen_back())
        self._open: dict[str, _Voice] = {}
        self._on_gpu = self._device.startswith("cuda")
        self._transform = Graphs(self._transformed, enabled=self._on_gpu)
        self._convolve = Graphs(self._convolved, enabled=self._on_gpu)
        self._most = options.limit
        if self._on_gpu:
            self._capture()
        self.frame_rows = self._frame
        self.layout = RowLayout(("samples",), 1, "int16", 2)

    # ------------------------------------------------------------------------------------------------------- requests

    def facts(self) -> dict[str, Any]:
        return {"sample_rate": int(self._options.record["sample_rate"]), "frame_samples": self._frame}

    def open(self, key: str, options: Mapping[str, Any]) -> None:  # noqa: ARG002 - one interface
        self._open[key] = _Voice(key)

    def text(self, key: str, ids: Sequence[int], *, prompt: bool, last: bool) -> None:
        """Text is nothing to this stage."""

    def media(self, key: str, media: Sequence[Media]) -> None:
        """Nor are pictures and sounds."""

    def rows(self, key: str, start: int, rows: np.ndarray) -> None:
        voice = self._open.get(key)
        if voice is not None and start == voice.received:
            voice.waiting.append(rows.reshape(len(rows), self._codebooks).copy())
            voice.received += len(rows)

    def rows_end(self, key: str, count: int) -> None:
        voice = self._open.get(key)
        if voice is not None:
            voice.total = count

    def rows_cut(self) -> None:
        """The stage before tells the front of every request whose frames nobody has taken."""

    def credit(self, key: str, frames: int) -> None:
        """This stage has no more of a request than its Talker is given credit for."""

    def drop(self, key: str) -> None:
        self._open.pop(key, None)

    def open_requests(self) -> int:
        return len(self._open)

    # ------------------------------------------------------------------------------------------------------ computing

    def ready(self) -> list[str]:
        """Requests that have a chunk (or their end): the one of which least is made yet, and others with as much past.

        So none runs ahead while another waits for its first sound.
        """
        due = sorted((voice for voice in self._open.values() if self._is_due(voice)), key=lambda voice: voice.done)
        if not due:
            return []
        past = self._past_frames(due[0])
        chosen = [voice.key for voice in due if self._past_frames(voice) == past]
        return chosen[: self._most]

    @torch.inference_mode()
    def run(self, keys: Sequence[str]) -> tuple[list[Chunk], list[Ended]]:
        voices = [self._open[key] for key in keys]
        speaking = [voice for voice in voices if voice.pending]
        chunks = self._decode(speaking) if speaking else []
        ended = [self._end(voice) for voice in voices if voice.total is not None and voice.done >= voice.total]
        return chunks, ended

    def _is_due(self, voice: _Voice) -> bool:
        if voice.total is not None and voice.received >= voice.total:
            return True
        return voice.pending >= self._chunk_of(voice)

    def _chunk_of(self, voice: _Voice) -> int:
        return self._options.chunk if voice.done else min(self._options.first_chunk, self._options.chunk)

    def _past_frames(self, voice: _Voice) -> int:
        return min(self._context, voice.done)

    def _end(self, voice: _Voice) -> Ended:
        self.drop(voice.key)
        return Ended(voice.key, self._samples(voice.done), voice.done, "stop")

    def _samples(self, frames: int) -> int:
        """How many samples so many frames make."""
        return max(0, frames * self._frame - self._missing)

    def _decode(self, voices: Sequence[_Voice]) -> list[Chunk]:
        counts = [min(voice.pending, self._chunk_of(voice)) for voice in voices]
        frames = [_take(voice, count) for voice, count in zip(voices, counts, strict=True)]
        extra = self._bucket(len(voices)) - len(voices)
        filled = [*voices, *[voices[-1]] * extra]
        codes = torch.from_numpy(_padded([*frames, *[frames[-1]] * extra], self._length(voices[0], max(counts))))
        done = torch.tensor([voice.done for voice in filled], device=self._device)
        past = torch.stack([self._past(voice) for voice in filled])
        back = self._past_frames(voices[0])
        context = torch.stack([_given(voice.context) for voice in filled]) if back else None
        seen, kept, waves = self._compute(codes.to(self._device), done, past, context)
        pcm = (waves.float().clamp(-1, 1) * PCM).round().to(torch.int16).cpu().numpy()
        chunks = []
        for number, (voice, count) in enumerate(zip(voices, counts, strict=True)):
            voice.past = kept[number, :, :, :, count : count + self._window - 1].clone()
            voice.context = seen[number, : back + count][-self._context :].clone()
            chunks.append(self._cut(voice, pcm[number], back, count))
            voice.done += count
        return [chunk for chunk in chunks if len(chunk.rows)]

    def _compute(
        self,
        codes: torch.Tensor,
        done: torch.Tensor,
        past: torch.Tensor,
        context: torch.Tensor | None,
        *,
        eager: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What the convolutions see, the keys and values to be kept, and the waves; ``eager`` takes no graphs."""
        transform, convolve = (self._transformed, self._convolved) if eager else (self._transform, self._convolve)
        hidden, kept = transform([codes, done, past])
        seen = hidden if context is None else torch.cat((context, hidden), 1)
        (waves,) = convolve([seen])
        return seen, kept, waves

    @torch.inference_mode()
    def _capture(self) -> None:
        """Choose the largest batch, then make the graphs, the largest first."""
        longest = max(self._shapes(), key=sum)
        one, two = (_batches.needed(lambda size: self._rehearse(size, *longest, eager=True), size) for size in (1, 2))
        share = float(self._options.engine_args.get("gpu_memory_utilization", DEFAULT_UTILIZATION))
        self._most = size = _batches.largest(self._options.limit, _batches.room(share), one, two)
        while size:
            for length, back in sorted(self._shapes(), key=sum, reverse=True):
                self._rehearse(size, length, back)
            size //= 2
        held = torch.cuda.memory_reserved() / 2**30
        print(f"code2wav: up to {self._most} chunks at once, {held:.1f} GiB held", file=sys.stderr, flush=True)

    def _shapes(self) -> Iterator[tuple[int, int]]:
        """The frames of a chunk, and those before it that are computed again: of the first, the second, and so on."""
        voice = _Voice("")
        while True:
            yield (self._chunk_of(voice), self._past_frames(voice))
            if voice.done >= self._context:
                return
            voice.done += self._chunk_of(voice)

    def _rehearse(self, size: int, length: int, back: int, *, eager: bool = False) -> None:
        """Compute one step of so many requests, of no matter what."""
        codes = torch.zeros((size, self._codebooks, length), dtype=torch.int64, device=self._device)
        done = torch.full((size,), back, device=self._device)
        past = torch.stack([self._past(_Voice(""))] * size)
        width = self._module.config.hidden_size
        before = torch.zeros((size, back, width), dtype=self._dtype, device=self._device) if back else None
        self._compute(codes, done, past, before, eager=eager)

    def _bucket(self, requests: int) -> int:
        """The size of the batch that is computed for so many requests: a CUDA graph has one size."""
        return _batches.bucket(requests) if self._on_gpu else requests

    def _length(self, voice: _Voice, frames: int) -> int:
        """How many frames are computed where the longest chunk has ``frames``."""
        return self._chunk_of(voice) if self._on_gpu else frames

    def _cut(self, voice: _Voice, wave: np.ndarray, back: int, count: int) -> Chunk:
        """The samples of a chunk out of those that were computed, which begin ``back`` frames before it."""
        begin, end = self._samples(voice.done), self._samples(voice.done + count)
        shift = (voice.done - back) * self._frame
        return Chunk(voice.key, begin, wave[begin - shift : end - shift].reshape(-1, 1, 1))

    def _past(self, voice: _Voice) -> torch.Tensor:
        """Keys and values of the frames before: ``[layers, 2, heads, window - 1, width]``."""
        if voice.past is not None:
            return voice.past
        config = self._module.config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (self._layers, 2, config.num_key_value_heads, self._window - 1, width)
        return torch.zeros(shape, dtype=self._dtype, device=self._device)

    def _transformed(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The transformer over ``codes`` ``[requests, codebooks, frames]``; ``done`` frames came before, of which
        ``past`` holds keys and values.
        """
        codes, done, past = inputs
        frames, window = codes.shape[2], self._window
        embedded = self._module.code_embedding(codes + self._module.code_offset).mean(1)
        asking = done[:, None] + torch.arange(frames, device=done.device)
        asked = done[:, None] - (window - 1) + torch.arange(window - 1 + frames, device=done.device)
        age = asking[:, :, None] - asked[:, None, :]
        visible = (asked[:, None, :] >= 0) & (age >= 0) & (age < window)
        cache = _Window(past)
        output = self._module.pre_transformer(
            inputs_embeds=embedded,
            attention_mask={"sliding_attention": visible[:, None], "full_attention": visible[:, None]},
            position_ids=asking,
            past_key_values=cache,
            use_cache=False,
        )
        return [output.last_hidden_state, cache.kept()]

    def _convolved(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The convolutions over ``[requests, frames, hidden]``: ``[requests, samples]``."""
        wave = inputs[0].permute(0, 2, 1)
        for blocks in self._module.upsample:
            for block in blocks:
                wave = block(wave)
        for block in self._module.decoder:
            wave = block(wave)
        return [wave[:, 0]]

    def _missing_samples(self) -> int:
        """By how many samples the waveform is shorter than its frames: each transposed convolution that is wider than
        its stride takes that much off on the left, where the next frame begins, and on the right.
        """
        missing = 0
        for layer in self._modules():
            if isinstance(layer, nn.ConvTranspose1d):
                missing = missing * layer.stride[0] + layer.kernel_size[0] - layer.stride[0]
        return missing

    def _frames_seen_back(self) -> int:
        """How many frames back the convolutions of one frame reach, at most."""
        rate, reach = 1, 0.0
        for layer in self._modules():
            if isinstance(layer, nn.ConvTranspose1d):
                reach += ceil(layer.kernel_size[0] / layer.stride[0]) / rate
                rate *= layer.stride[0]
            else:
                reach += (layer.kernel_size[0] - 1) * layer.dilation[0] / rate
        return ceil(reach) + 1

    def _modules(self) -> list[Any]:
        """The convolutions, in the order in which a frame passes them."""
        kinds = (nn.Conv1d, nn.ConvTranspose1d)
        halves = (self._module.upsample, self._module.decoder)
        return [layer for half in halves for layer in half.modules() if isinstance(layer, kinds)]


class _Window:
    """Stands where transformers' attention expects a cache: the window's keys and values, then the chunk's."""

    def __init__(self, past: torch.Tensor) -> None:
        self._past = past
        self._both: list[torch.Tensor] = []

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        keys = torch.cat((self._past[:, layer, 0], keys), dim=2)
        values = torch.cat((self._past[:, layer, 1], values), dim=2)
        self._both.append(torch.stack((keys, values), dim=1))
        return keys, values

    def kept(self) -> torch.Tensor:
        """``[requests, layers, 2, heads, window - 1 + frames, width]``."""
        return torch.stack(self._both, dim=1)


def _take(voice: _Voice, count: int) -> np.ndarray:
    """The next ``count`` frames that wait: ``[count, codebooks]``."""
    waiting = np.concatenate(voice.waiting)
    voice.waiting = [waiting[count:]] if len(waiting) > count else []
    return waiting[:count]


def _padded(frames: Sequence[np.ndarray], longest: int) -> np.ndarray:
    """``[requests, codebooks, longest]``; what comes after a request's frames changes none of its samples."""
    codes = np.zeros((len(frames), frames[0].shape[1], longest), dtype=np.int64)
    for number, mine in enumerate(frames):
        codes[number, :, : len(mine)] = mine.T
    return codes


def _given(context: torch.Tensor | None) -> torch.Tensor:
    assert context is not None
    return context
