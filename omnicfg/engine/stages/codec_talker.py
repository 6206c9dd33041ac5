"""A Talker with a code predictor: an autoregressive decoder over codec frames, conditioned on a Thinker's text.

Transformers' modules compute it (``bundled.module`` of the record), this executor keeps many requests going at once:
one cache with a slot for each, one call for all that can take a step. A frame is one code of the first codebook,
sampled by the decoder, and the other codebooks' codes, sampled one after another by the code predictor. What is read
and when is that of ``Qwen3OmniMoeForConditionalGeneration.generate`` in transformers:

* the prompt is the user's turns (a projection of the text's embeddings; at the positions of sounds and images, a
  projection of the Thinker's payload row), then the assistant's, of which four tokens are needed to begin; its tokens
  have positions of M-RoPE (:mod:`omnicfg.engine.stages._positions`);
* one more token of the text is read with every frame, then the end of the text, then padding. The last token that the
  Thinker has sampled is never read.

So speech begins as soon as the Thinker has sampled its second token, and never waits for more than it will read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from omnicfg.engine.stages import Chunk, Ended, Executor, RequestError, StageOptions
from omnicfg.engine.stages._positions import Grid, grids_of, positions_of
from omnicfg.engine.stages._sampling import Sampling
from omnicfg.engine.stages._slots import Slots
from omnicfg.engine.stages._weights import DUMMY_SCALE, configuration, part, tensor
from omnicfg.engine.transport import Media, RowLayout

OPENING = 4
"""Tokens of the assistant's turn that the prompt holds: its start, its role, a line's end, the text's first."""
_SUPPRESSED = 1024
"""The end of the vocabulary holds codes that are never said, the end of speech excepted."""
_PREDICTOR = {"top_k": 50, "top_p": 0.8}
"""How transformers samples the other codebooks' codes where it samples the first one's."""
_DEFAULT_MAX_TOKENS = 4096


def make(options: StageOptions) -> Executor:
    """The executor, its weights loaded."""
    return CodecTalker(options)


@dataclass(slots=True, eq=False)
class Speech:
    """One request. ``spoken`` is the assistant's turn, ``codes`` the first codebook's codes, the last one without its
    frame; ``length`` are the tokens in its slot, of which the next one stands ``ahead`` of as many positions;
    ``arrived`` are the frames that its client has.
    """

    key: str
    speaker: int
    seed: int | None
    prompt: list[int] = field(default_factory=list)
    spoken: list[int] = field(default_factory=list)
    text_ended: bool = False
    media: Sequence[Media] = ()
    kept: list[torch.Tensor] = field(default_factory=list)
    rows: int = 0
    rows_ended: bool = False
    slot: int | None = None
    length: int = 0
    ahead: float = 0.0
    codes: list[int] = field(default_factory=list)
    hidden: torch.Tensor | None = None
    frames: int = 0
    arrived: int = 0
    generator: torch.Generator | None = None


class CodecTalker:
    """See the module. ``options.record["embeddings"]`` names the table of the Thinker's text embeddings."""

    reads_grids: bool = True
    """Whether it takes positions of which pictures and videos use more than one axis."""

    def __init__(self, options: StageOptions) -> None:
        self._options = options
        self._device = options.device
        self._config = configuration(options.model)
        self._own = configuration(options.model, options.record["config"])
        self._sampling = Sampling.of(options.sampling)
        self._max_tokens = int(options.sampling.get("max_tokens") or _DEFAULT_MAX_TOKENS)
        longest = int(self._own.text_config.max_position_embeddings)
        self._limit = min(longest, int(options.engine_args.get("max_model_len") or longest))
        self._free = list(reversed(range(options.limit)))
        self._media = {self._own.audio_token_id, self._own.image_token_id, self._own.video_token_id}
        self._open: dict[str, Speech] = {}
        self.frame_rows = 1
        self.layout = RowLayout(("codes",), int(self._own.num_code_groups), "int32", 4)
        self._load()

    def _load(self) -> None:
        """What computes: the weights and the cache."""
        options, dtype = self._options, getattr(torch, self._options.dtype)
        self._talker: Any = part(options.model, options.record, dtype, self._device, dummy=options.dummy)
        self._predictor: Any = self._talker.code_predictor
        self._predictor_sampling = Sampling(0.0) if self._sampling.greedy else Sampling.of(_PREDICTOR)
        self._embeddings = self._text_embeddings(dtype)
        decoder = self._own.text_config
        width = getattr(decoder, "head_dim", None) or decoder.hidden_size // decoder.num_attention_heads
        heads = decoder.num_key_value_heads
        self._slots = Slots(decoder.num_hidden_layers, options.limit, heads, width, dtype, self._device)
        self._silent = self._never_said(decoder.vocab_size)

    def _text_embeddings(self, dtype: torch.dtype) -> torch.Tensor:
        if self._options.dummy:
            shape = (self._config.thinker_config.text_config.vocab_size, self._own.thinker_hidden_size)
            return torch.empty(shape, dtype=dtype, device=self._device).normal_(std=DUMMY_SCALE)
        return tensor(self._options.model, self._options.record["embeddings"], dtype, self._device)

    # ------------------------------------------------------------------------------------------------------- requests

    def facts(self) -> dict[str, Any]:
        return {"codebooks": self.layout.width, "max_tokens": self._max_tokens}

    def open(self, key: str, options: Mapping[str, Any]) -> None:
        voice = str(options["voice"]).lower()
        speakers: Mapping[str, int] = self._own.speaker_id or {}
        if voice not in speakers:
            raise RequestError(f"there is no voice `{voice}`; this model has {', '.join(speakers)}")
        self._open[key] = Speech(key, speakers[voice], options.get("seed"))

    def text(self, key: str, ids: Sequence[int], *, prompt: bool, last: bool) -> None:
        speech = self._open.get(key)
        if speech is None:
            return
        if prompt:
            speech.prompt = list(ids)
            speech.spoken = self._turn(speech.prompt)
        else:
            speech.spoken.extend(ids)
        speech.text_ended = speech.text_ended or last

    def media(self, key: str, media: Sequence[Media]) -> None:
        if (speech := self._open.get(key)) is not None:
            speech.media = media

    def rows(self, key: str, start: int, rows: np.ndarray | torch.Tensor) -> None:
        speech = self._open.get(key)
        if speech is None or speech.slot is not None:
            return  # rows are for the prompt
        if start == speech.rows:
            speech.kept.append(_tensor(rows))
            speech.rows += len(rows)

    def rows_end(self, key: str, count: int) -> None:  # noqa: ARG002 - one interface
        speech = self._open.get(key)
        if speech is not None:
            speech.rows_ended = True

    def rows_cut(self) -> None:
        """A request that has the rows of its prompt goes on; others do not wait for an end that may have been lost."""
        for speech in self._open.values():
            speech.rows_ended = True

    def credit(self, key: str, frames: int) -> None:
        speech = self._open.get(key)
        if speech is not None:
            speech.arrived = max(speech.arrived, frames)

    def drop(self, key: str) -> None:
        speech = self._open.pop(key, None)
        if speech is not None and speech.slot is not None:
            self._free.append(speech.slot)

    def open_requests(self) -> int:
        return len(self._open)

    # ------------------------------------------------------------------------------------------------------ computing

    def ready(self) -> list[str]:
        """One request that can begin, or all that can take a step: whoever begins does not wait for others' speech."""
        for speech in self._open.values():
            if speech.slot is None and self._can_begin(speech):
                return [speech.key]
        return [speech.key for speech in self._open.values() if speech.slot is not None and self._can_step(speech)]

    @torch.inference_mode()
    def run(self, keys: Sequence[str]) -> tuple[list[Chunk], list[Ended]]:
        speeches = [self._open[key] for key in keys]
        if speeches[0].slot is None:
            [speech] = speeches
            return [], [ended] if (ended := self._begin(speech)) else []
        frames = self._step(speeches)
        chunks = [
            Chunk(speech.key, speech.frames - 1, frame[None]) for speech, frame in zip(speeches, frames, strict=True)
        ]
        return chunks, [ended for speech in speeches if (ended := self._ended(speech))]

    def _can_begin(self, speech: Speech) -> bool:
        if not speech.prompt or not self._free or not (speech.text_ended or self._options.async_chunk):
            return False
        has_text = speech.text_ended or readable(speech) >= OPENING
        return has_text and (speech.rows_ended or speech.rows >= self._rows_needed(speech))

    def _can_step(self, speech: Speech) -> bool:
        if speech.frames - speech.arrived >= self._options.window:
            return False
        return speech.text_ended or OPENING + speech.frames < readable(speech)

    def _turn(self, prompt: list[int]) -> list[int]:
        """The assistant's last turn."""
        start, role = self._config.im_start_token_id, self._config.assistant_token_id
        for place in range(len(prompt) - 2, -1, -1):
            if prompt[place] == start and prompt[place + 1] == role:
                return prompt[place:]
        raise RequestError("the prompt has no assistant's turn to speak in")

    def _user_positions(self, speech: Speech) -> list[int]:
        """The positions of the user's turns, their first token to the last before the next turn."""
        positions: list[int] = []
        of_user = False
        for place, token in enumerate(speech.prompt):
            if token == self._config.im_start_token_id:
                follower = speech.prompt[place + 1] if place + 1 < len(speech.prompt) else None
                of_user = follower == self._config.user_token_id
            if of_user:
                positions.append(place)
        return positions

    def _rows_needed(self, speech: Speech) -> int:
        media = [place for place in self._user_positions(speech) if speech.prompt[place] in self._media]
        return media[-1] + 1 if media else 0

    def _begin(self, speech: Speech) -> Ended | None:
        """The prompt, from which the first code is sampled."""
        if readable(speech) < OPENING:
            self.drop(speech.key)
            return Ended(speech.key, 0, 0, "stop")  # no text, so there is nothing to say
        if speech.rows < self._rows_needed(speech):
            raise RequestError("hidden states of the prompt were lost on their way here")
        if not self.reads_grids and self._grids(speech):
            raise RequestError(
                "pictures and videos together with an answer in speech are not served by this stage's executor "
                f"({type(self).__name__}): ask for text only, or send no more than text and sounds"
            )
        prompt = self._prompt(speech)
        tokens = prompt.shape[1]
        if tokens >= self._limit:
            raise RequestError(f"the prompt fills the {self._limit} positions that speech has")
        speech.slot, speech.length = self._free.pop(), tokens
        speech.kept.clear()
        return self._start(speech, prompt)

    def _start(self, speech: Speech, prompt: torch.Tensor) -> Ended | None:
        """Compute the prompt, ``[1, tokens, hidden]``, and sample the first code."""
        assert speech.slot is not None
        tokens = prompt.shape[1]
        if not self._sampling.greedy:
            speech.generator = torch.Generator(self._device)
            seed = speech.seed if speech.seed is not None else self._options.sampling.get("seed")
            _ = speech.generator.seed() if seed is None else speech.generator.manual_seed(int(seed))
        causal = torch.ones(tokens, tokens, dtype=torch.bool, device=self._device).tril()[None, None]
        hidden = self._decode(prompt, self._slots.whole(speech.slot, tokens), causal, self._positions(speech, tokens))
        self._choose([speech], hidden[:, -1:])
        return self._ended(speech)

    def _grids(self, speech: Speech) -> dict[int, Grid]:
        if not speech.media:
            return {}
        try:
            grids = grids_of(speech.media, self._own.spatial_merge_size, self._own.position_id_per_seconds)
        except ValueError as error:
            raise RequestError(f"speech about this prompt cannot be made: {error}") from None
        return grids

    def _positions(self, speech: Speech, tokens: int) -> torch.Tensor:
        """``[3, 1, tokens]`` of the prompt; what follows it stands ``speech.ahead`` of its place."""
        positions, following = positions_of(self._user_positions(speech), self._grids(speech))
        opening = tokens - len(positions)
        positions += [(following + place,) * 3 for place in range(opening)]
        speech.ahead = following + opening - tokens
        return torch.tensor(positions, device=self._device).T[:, None]

    def _prompt(self, speech: Speech) -> torch.Tensor:
        """``[1, tokens, hidden]``: the user's turns, then the opening of the assistant's."""
        places = self._user_positions(speech)
        user = self._project([speech.prompt[place] for place in places])
        media = [number for number, place in enumerate(places) if speech.prompt[place] in self._media]
        if media:
            states = self._as_rows(torch.cat(speech.kept)[[places[number] for number in media]])
            user[media] = self._talker.hidden_projection(states).to(user.dtype)
        names = ("codec_nothink_id", "codec_think_bos_id", "codec_think_eos_id")
        pad, begin = self._own.codec_pad_id, self._own.codec_bos_id
        codes = [*(getattr(self._own, name) for name in names), speech.speaker, pad, begin]
        spoken = speech.spoken
        ids = [*spoken[:3], *[self._config.tts_pad_token_id] * 4, self._config.tts_bos_token_id, spoken[3]]
        opening = self._project(ids)
        opening[3:] += self._embed(torch.tensor(codes, device=self._device))
        return torch.cat((user, opening))[None]

    def _embed(self, codes: torch.Tensor) -> torch.Tensor:
        """Codes of the first codebook as the decoder reads them."""
        embedded: torch.Tensor = self._talker.model.codec_embedding(codes)
        return embedded

    def _as_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """``[tokens, width]`` of the first kept row, in the Talker's dtype."""
        return rows[:, 0].to(self._device, getattr(torch, self._options.dtype))

    def _project(self, ids: Sequence[int]) -> torch.Tensor:
        """Text tokens as the Talker reads them: ``[tokens, hidden]``."""
        table = torch.tensor(ids, dtype=torch.long, device=self._device)
        projected: torch.Tensor = self._talker.text_projection(nn.functional.embedding(table, self._embeddings))
        return projected

    def _decode(self, inputs: torch.Tensor, cache: Any, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        output = self._talker.model(
            inputs_embeds=inputs,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=False,
        )
        hidden: torch.Tensor = output.last_hidden_state
        return hidden

    def _step(self, speeches: Sequence[Speech]) -> np.ndarray:
        """One frame of each: the other codebooks' codes of the last step's code, then the next code."""
        first = torch.tensor([speech.codes[-1] for speech in speeches], device=self._device)
        embedded = self._talker.model.codec_embedding(first)[:, None]
        hidden = torch.cat([speech.hidden for speech in speeches if speech.hidden is not None])
        others = self._predict(speeches, torch.cat((hidden, embedded), dim=1))
        tables = self._predictor.get_input_embeddings()
        parts = [embedded, *(table(others[:, group : group + 1]) for group, table in enumerate(tables))]
        inputs = torch.cat(parts, dim=1).sum(1, keepdim=True)
        inputs = inputs + self._project([self._next_text(speech) for speech in speeches])[:, None]
        lengths = [speech.length for speech in speeches]
        cache = self._slots.step([speech.slot for speech in speeches if speech.slot is not None], lengths)
        positions = torch.tensor([speech.length + speech.ahead for speech in speeches], device=self._device)
        positions = positions[None, :, None].expand(3, -1, -1)
        hidden = self._decode(inputs, cache, cache.mask, positions)
        for speech in speeches:
            speech.length += 1
            speech.frames += 1
        self._choose(speeches, hidden)
        frames: np.ndarray = torch.cat((first[:, None], others), dim=1).to(torch.int32).cpu().numpy()
        return frames

    def _next_text(self, speech: Speech) -> int:
        """The text token that goes with the frame to come."""
        place, end = OPENING + speech.frames, readable(speech)
        if place < end:
            return speech.spoken[place]
        return int(self._config.tts_eos_token_id if place == end else self._config.tts_pad_token_id)

    def _predict(self, speeches: Sequence[Speech], inputs: torch.Tensor) -> torch.Tensor:
        """The codes of all codebooks but the first: ``[requests, codebooks - 1]``."""
        from transformers import DynamicCache

        cache = DynamicCache(config=self._predictor.config)
        codes: list[torch.Tensor] = []
        tables = self._predictor.get_input_embeddings()
        for group, head in enumerate(self._predictor.lm_head):
            output = self._predictor.model(inputs_embeds=inputs, past_key_values=cache, use_cache=True)
            logits = head(output.last_hidden_state[:, -1])
            generators = [speech.generator for speech in speeches if speech.generator is not None]
            code = self._predictor_sampling.choose(logits, [[]] * len(speeches), generators)
            codes.append(code)
            if group + 1 < len(self._predictor.lm_head):
                inputs = tables[group](code)[:, None]
        return torch.stack(codes, dim=1)

    def _choose(self, speeches: Sequence[Speech], hidden: torch.Tensor) -> None:
        """Sample each one's next first code; ``hidden`` is ``[requests, 1, hidden]``."""
        logits = self._talker.codec_head(hidden[:, 0]).float()
        generators = [speech.generator for speech in speeches if speech.generator is not None]
        chosen = self._sampling.choose(
            logits.masked_fill(self._silent, float("-inf")), [speech.codes for speech in speeches], generators
        )
        for number, (speech, code) in enumerate(zip(speeches, chosen.tolist(), strict=True)):
            speech.codes.append(code)
            speech.hidden = hidden[number : number + 1]

    def _ended(self, speech: Speech) -> Ended | None:
        """Whether the code that was just sampled is the last; it has no frame of its own then."""
        if speech.codes[-1] == self._own.codec_eos_token_id:
            reason = "stop"
        elif len(speech.codes) >= self._max_tokens or speech.length + 1 >= self._limit:
            reason = "length"
        else:
            return None
        self.drop(speech.key)
        return Ended(speech.key, speech.frames, speech.frames, reason)

    def _never_said(self, vocabulary: int) -> torch.Tensor:
        silent = torch.zeros(vocabulary, dtype=torch.bool, device=self._device)
        silent[max(0, vocabulary - _SUPPRESSED) :] = True
        silent[self._own.codec_eos_token_id] = False
        return silent


def readable(speech: Speech) -> int:
    """How many tokens of the assistant's turn are read: all but the last one that was sampled."""
    return len(speech.spoken) - 1


def _tensor(rows: np.ndarray | torch.Tensor) -> torch.Tensor:
    """Rows as a tensor; numpy has bfloat16 as bits only."""
    if isinstance(rows, torch.Tensor):
        if rows.is_cuda:  # copied in on a stream of its own, which may reuse the memory once this one has read it
            rows.record_stream(torch.cuda.current_stream(rows.device))
        return rows
    states = torch.from_numpy(rows)
    return states.view(torch.bfloat16) if states.dtype == torch.uint16 else states
