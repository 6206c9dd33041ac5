"""A Talker with a code predictor on vLLM (CUDA, Model Runner V2): what ``codec_talker`` computes, at vLLM's speed.

The engine runs in this process. ``options.record`` says, beside what ``codec_talker`` reads, under ``decoder`` which
of vLLM's classes is the decoder's and how its modules are called in the checkpoint. A frame's other codes are predicted
in the step that samples its first one, so the last code, which has no frame of its own, is left out here.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from omnicfg.engine.speech import utterance as utterances
from omnicfg.engine.speech.utterance import Utterance
from omnicfg.engine.stages import Chunk, Ended, Executor, RequestError, StageOptions
from omnicfg.engine.stages.codec_talker import OPENING, CodecTalker, Speech, readable

_PROMPT_TOKENS: Final = 4096
"""Of a step; longer prompts take several."""


def make(options: StageOptions) -> Executor:
    """The executor, its engine started."""
    return VllmCodecTalker(options)


class VllmCodecTalker(CodecTalker):
    """See the module."""

    def _load(self) -> None:
        os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_V2_MODEL_RUNNER": "1"}
        from vllm import LLM

        self._folder = tempfile.TemporaryDirectory(prefix="omnicfg-talker-")
        directory = Path(self._folder.name)
        architecture = self._write_decoder(directory)
        engine_args: dict[str, Any] = {
            "dtype": self._options.dtype,
            "max_num_seqs": self._options.limit,
            "max_model_len": self._limit,
            "max_num_batched_tokens": _PROMPT_TOKENS,
            **self._options.engine_args,
        }
        self._llm = LLM(
            str(directory),
            skip_tokenizer_init=True,
            enable_prompt_embeds=True,
            enable_prefix_caching=False,  # a block of frames would hash by its first codes alone
            async_scheduling=False,  # the scheduler has to know how far each request has come
            scheduler_cls="omnicfg.engine.speech.scheduler.SpeechScheduler",
            max_logprobs=self._own.num_code_groups,
            additional_config={"speech": self._speech_config()},
            hf_overrides={"architectures": [architecture]},
            **engine_args,
        )
        self._engine = self._llm.llm_engine
        (self._talker,) = self._engine.apply_model(lambda model: model)
        self._running: dict[str, tuple[str, Utterance]] = {}

    def _write_decoder(self, directory: Path) -> str:
        """A model directory for vLLM: the decoder's own configuration, and links to the files of the checkpoint."""
        from omnicfg.engine.speech.decoder import register

        decoder = self._options.record["decoder"]
        config = self._own.text_config.to_dict()
        rope = self._own.text_config.rope_parameters
        angles = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
        self.reads_grids = "mrope_interleaved" in decoder and "mrope_section" in rope
        if self.reads_grids:  # otherwise text has one position for each token, for which M-RoPE is the ordinary one
            # Whether a checkpoint says so or not, the class of transformers either interleaves or does not.
            angles |= {"mrope_section": rope["mrope_section"], "mrope_interleaved": decoder["mrope_interleaved"]}
        config |= {
            "model_type": decoder["model_type"],
            "architectures": [decoder["architecture"]],
            "rope_parameters": angles,
            "tie_word_embeddings": False,
            "bos_token_id": None,
            "eos_token_id": None,
        }
        (directory / "config.json").write_text(json.dumps(config))
        for file in _files(self._options.model, (self._options.record["weights"], self._options.record["embeddings"])):
            (directory / file.name).symlink_to(file.resolve())
        return register(decoder["architecture"])

    def _speech_config(self) -> dict[str, Any]:
        thinker = self._config.thinker_config.text_config
        silent = self._never_said(self._own.text_config.vocab_size)
        record = self._options.record
        return {
            "part": {
                "weights": record["weights"],
                "embeddings": record["embeddings"],
                "names": dict(record["decoder"]["names"]),
            },
            "predictor": self._own.code_predictor_config.to_dict(),
            "text": [thinker.vocab_size, self._own.thinker_hidden_size],
            "width": self._own.text_config.intermediate_size,
            "silent": silent.nonzero().flatten().tolist(),
            "frames": self._max_tokens,
            "end": self._config.tts_eos_token_id,
            "pad": self._config.tts_pad_token_id,
            "greedy": self._sampling.greedy,
        }

    # ------------------------------------------------------------------------------------------------------- requests

    def text(self, key: str, ids: Sequence[int], *, prompt: bool, last: bool) -> None:
        super().text(key, ids, prompt=prompt, last=last)
        if (running := self._running.get(key)) is not None:
            self._read_on(running[1], self._open[key])

    def credit(self, key: str, frames: int) -> None:
        super().credit(key, frames)
        if (running := self._running.get(key)) is not None:
            running[1].arrived = self._open[key].arrived

    def drop(self, key: str) -> None:
        super().drop(key)
        if (running := self._running.pop(key, None)) is not None:
            self._engine.abort_request([running[0]], internal=True)
            utterances.end(key)

    # ------------------------------------------------------------------------------------------------------ computing

    @torch.inference_mode()
    def run(self, keys: Sequence[str]) -> tuple[list[Chunk], list[Ended]]:
        speech = self._open[keys[0]]
        if speech.slot is None:
            return [], list(filter(None, [self._begin(speech)]))
        chunks: list[Chunk] = []
        ended: list[Ended] = []
        for output in self._engine.step():
            self._take(output.request_id, output.outputs[0], output.finished, chunks, ended)
        return chunks, ended

    def _can_step(self, speech: Speech) -> bool:
        running = self._running.get(speech.key)
        # the first frame comes with the prompt; the step after reads what belongs to it
        return running is not None and (speech.frames == 0 or running[1].may_speak(speech.frames - 1))

    def _start(self, speech: Speech, prompt: torch.Tensor) -> Ended | None:
        from vllm import SamplingParams
        from vllm.inputs.engine import embeds_input
        from vllm.sampling_params import RequestOutputKind

        seed = speech.seed if speech.seed is not None else self._options.sampling.get("seed")
        spoken = Utterance(speech.key, self._options.window, seed=int(seed) if seed is not None else _random_seed())
        self._read_on(spoken, speech)
        spoken.arrived = speech.arrived
        if self._grids(speech):
            spoken.places = self._places(speech, prompt.shape[1])
        sampling = self._sampling
        parameters = SamplingParams(
            max_tokens=min(self._max_tokens, self._limit - prompt.shape[1]),
            temperature=sampling.temperature,
            top_k=sampling.top_k or -1,
            top_p=sampling.top_p,
            repetition_penalty=sampling.repetition_penalty,
            seed=None if sampling.greedy or seed is None else int(seed),
            stop_token_ids=[self._own.codec_eos_token_id],
            ignore_eos=True,
            detokenize=False,
            logprobs=self._own.num_code_groups - 1,
            flat_logprobs=True,
            output_kind=RequestOutputKind.DELTA,
            extra_args=dict(utterances.begin(spoken)),
        )
        # The places of the prompt count as said where repetition is penalised: a code that is never said does no harm.
        places = [self._own.codec_pad_id] * prompt.shape[1]
        inputs = embeds_input(prompt_embeds=prompt[0].cpu(), prompt_token_ids=places)
        self._running[speech.key] = (self._engine.add_request(speech.key, inputs, parameters), spoken)
        return None

    def _places(self, speech: Speech, tokens: int) -> tuple[torch.Tensor, int]:
        """Positions ``[3, tokens]`` of the prompt, and by how much what follows it stands ahead of its place."""
        positions = self._positions(speech, tokens)[:, 0].cpu()
        whole = positions.round().to(torch.int64)
        if not torch.equal(whole.to(positions.dtype), positions):
            raise RequestError(
                f"frames of the video lie between two positions, which this stage's executor ({type(self).__name__}) "
                "does not take: have one or two frames a second read"
            )
        ahead, reach = round(speech.ahead), self._talker.reach
        if ahead + min(self._limit, tokens + self._max_tokens) > reach:
            raise RequestError(f"with its answer the video takes more than the {reach} positions that speech has")
        return whole, ahead

    def _take(self, name: str, output: Any, finished: bool, chunks: list[Chunk], ended: list[Ended]) -> None:
        speech = self._open.get(name)
        if speech is None:
            return
        frames = list(_frames(output.logprobs))
        if finished:
            frames.pop()
        if frames:
            chunks.append(Chunk(name, speech.frames, np.asarray(frames, dtype=np.int32)[:, None]))
            speech.frames += len(frames)
        if finished:
            self._running.pop(name)
            utterances.end(name)
            self.drop(name)
            ended.append(Ended(name, speech.frames, speech.frames, output.finish_reason))

    def _project(self, ids: Sequence[int]) -> torch.Tensor:
        projected: torch.Tensor = self._talker.read_text(torch.tensor(ids, dtype=torch.long, device=self._device))
        return projected

    def _embed(self, codes: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self._talker.embed_input_ids(codes)
        return embedded

    @staticmethod
    def _read_on(spoken: Utterance, speech: Speech) -> None:
        """Text for the frames to come: what is readable behind the opening."""
        spoken.text.extend(speech.spoken[OPENING + len(spoken.text) : max(OPENING, readable(speech))])
        spoken.ended = speech.text_ended


def _frames(logprobs: Any) -> Iterator[Sequence[int]]:
    for start, end in zip(logprobs.start_indices, logprobs.end_indices, strict=True):
        yield logprobs.token_ids[start:end]


def _random_seed() -> int:
    return int(torch.randint(2**62, (1,)).item())


def _files(model: Path, prefixes: tuple[str, ...]) -> list[Path]:
    """The files of a checkpoint that hold tensors with these prefixes, by its index where it has one."""
    index = model / "model.safetensors.index.json"
    if not index.exists():
        return sorted(model.glob("*.safetensors"))
    places: Mapping[str, str] = json.loads(index.read_text())["weight_map"]
    return sorted({model / file for name, file in places.items() if name.startswith(prefixes)})
