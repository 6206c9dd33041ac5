"""What the model runner keeps of spoken requests: a frame's input is made of the codes of the frame before and of text.

Everything that a step reads lies on the GPU in a slot for each request, at fixed addresses, so that steps of any mix of
requests need no synchronisation. The last slot swallows what belongs to nobody.
"""

from __future__ import annotations

from typing import Any, Final, Self

import torch
from torch import nn
from torch.nn import functional
from vllm.config import VllmConfig
from vllm.v1.core.sched.output import NewRequestData
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.worker.gpu.input_batch import InputBatch
from vllm.v1.worker.gpu.model_states.default import DefaultModelState
from vllm.v1.worker.gpu.sample.output import SamplerOutput
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.states import RequestState

from omnicfg.engine.speech.decoder import CONFIG_KEY
from omnicfg.engine.speech.kernels import TOP_K
from omnicfg.engine.speech.predictor import gumbel
from omnicfg.engine.speech.utterance import Utterance, of

_SMALLEST_GRAPH: Final = 8
"""Matrix products of fewer rows take longer."""
_LARGEST_GRAPH: Final = 64


class SpeechState(DefaultModelState):
    """See the module. ``additional_config`` says how many frames a request may have and which tokens end its text."""

    def __init__(self, vllm_config: VllmConfig, model: nn.Module, encoder_cache: Any, device: torch.device) -> None:
        super().__init__(vllm_config, model, encoder_cache, device)
        own = vllm_config.additional_config[CONFIG_KEY]
        self._predictor = model.code_predictor
        self._frames, self._end, self._pad = int(own["frames"]), int(own["end"]), int(own["pad"])
        self._sampled = not own["greedy"]
        self._none = self.max_num_reqs
        others = self._predictor.shape.codebooks - 1
        slots = self.max_num_reqs + 1
        self._codes = torch.zeros(slots, self._frames, others, dtype=torch.int32, device=device)
        self._text = torch.full((slots, self._frames + 1), self._pad, dtype=torch.int64, device=device)
        self._prompt_length = torch.zeros(slots, dtype=torch.int64, device=device)
        self._seed = torch.zeros(slots, dtype=torch.int64, device=device)
        self._token_numbers = torch.arange(self.max_num_tokens, dtype=torch.int32, device=device)
        self._offsets = torch.arange(others, device=device) * self._predictor.shape.vocabulary
        self._draws = torch.arange(others * TOP_K, device=device).view(others, TOP_K)
        self._slots: dict[str, tuple[int, Utterance]] = {}
        self._graphs: dict[int, _PredictorGraph] = {}

    # --------------------------------------------------------------------------------------------------------- requests

    def add_request(self, req_index: int, new_req_data: NewRequestData) -> None:
        utterance = of(new_req_data.sampling_params)
        self.model.placed = utterance and utterance.places
        super().add_request(req_index, new_req_data)
        self._prompt_length[req_index] = new_req_data.prompt_len
        self._text[req_index].fill_(self._pad)
        if utterance is None:
            return
        self._slots[new_req_data.req_id] = (req_index, utterance)
        self._seed[req_index] = utterance.seed
        utterance.read = 0
        if utterance.codes is not None:  # it was preempted, and its frames are computed again from their codes
            self._codes[req_index].copy_(utterance.codes)
            utterance.codes = None

    def remove_request(self, req_id: str) -> None:
        super().remove_request(req_id)
        slot, utterance = self._slots.pop(req_id, (self._none, None))
        if utterance is not None:  # whether it ended or was preempted cannot be told apart here
            utterance.codes = self._codes[slot].clone()

    # ----------------------------------------------------------------------------------------------------------- inputs

    def prepare_inputs_embeds(
        self, scheduled_encoder_inputs: dict[str, list[int]], input_batch: InputBatch, req_states: RequestState
    ) -> torch.Tensor:
        """Prompts as they were given; a frame's is the sum of its codes' embeddings and of the text it reads."""
        inputs = super().prepare_inputs_embeds(scheduled_encoder_inputs, input_batch, req_states)
        self._take_text_over()
        count = input_batch.num_tokens
        ends = input_batch.query_start_loc[1 : input_batch.num_reqs + 1]
        row = torch.searchsorted(ends, self._token_numbers[:count], right=True)
        slot = input_batch.idx_mapping[row].long()
        frame = input_batch.positions[:count] - self._prompt_length[slot]
        spoken = frame >= 0
        frame = frame.clamp(0, self._frames - 1)
        table = self._predictor.embeddings.flatten(0, 1)
        added = functional.embedding_bag(self._codes[slot, frame].long() + self._offsets, table, mode="sum")
        added = added + self.model.read_text(self._text[slot, frame])
        inputs[:count] += torch.where(spoken[:, None], added, torch.zeros_like(added)).to(inputs.dtype)
        return inputs

    def _take_text_over(self) -> None:
        places: list[tuple[int, int, int]] = []
        for slot, utterance in self._slots.values():
            places += [(slot, frame, token) for frame, token in utterance.unread(self._end) if frame <= self._frames]
        if places:
            slots, frames, tokens = torch.tensor(places).t().to(self.device, non_blocking=True)
            self._text[slots, frames] = tokens

    # --------------------------------------------------------------------------------------------------------- sampling

    def custom_sampler(self, sampler: Sampler) -> tuple[Sampler, None]:
        """vLLM's sampler for the first code, and behind it the code predictor."""
        return SpeechSampler.around(sampler, self), None

    def predict(self, first: torch.Tensor, input_batch: InputBatch, num_sampled: torch.Tensor) -> torch.Tensor:
        """The other codes (``[requests, codebooks - 1]``) of the frames that begin with ``first``."""
        count = first.shape[0]
        slot = input_batch.idx_mapping[:count].long()
        frame = input_batch.positions[input_batch.logits_indices] + 1 - self._prompt_length[slot]
        noise = gumbel(self._seed[slot], frame, self._draws) if self._sampled else None
        codes = self._run_predictor(self.model.sampled_from, first, noise)
        mine = (num_sampled[:count] > 0) & (frame >= 0) & (frame < self._frames)
        place = frame.clamp(0, self._frames - 1)
        self._codes[torch.where(mine, slot, self._none), place] = codes.to(torch.int32)
        return codes

    def _run_predictor(self, hidden: torch.Tensor, first: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        if not self._graphs:
            codes: torch.Tensor = self._predictor(hidden, self.model.embed_input_ids(first), noise)
            return codes
        parts = []
        for start in range(0, first.shape[0], _LARGEST_GRAPH):
            part = slice(start, start + _LARGEST_GRAPH)
            size = next(size for size in self._graphs if size >= len(first[part]))
            parts.append(self._graphs[size].replay(hidden[part], first[part], None if noise is None else noise[part]))
        return torch.cat(parts)

    def capture_inner_cudagraphs(self, *_: Any, **__: Any) -> None:
        """One graph for each power of two of requests."""
        powers = range(_SMALLEST_GRAPH.bit_length() - 1, _LARGEST_GRAPH.bit_length())
        sizes = [2**power for power in powers if 2 ** (power - 1) < max(self.max_num_reqs, _SMALLEST_GRAPH)]
        self._graphs = {size: _PredictorGraph(self, size) for size in sizes}


class _PredictorGraph:
    """The code predictor for up to ``size`` requests."""

    def __init__(self, state: SpeechState, size: int) -> None:
        shape, device = state._predictor.shape, state.device
        self._hidden = torch.zeros(size, shape.hidden, dtype=state.dtype, device=device)
        self._first = torch.zeros(size, dtype=torch.int64, device=device)
        self._noise = torch.zeros(size, shape.codebooks - 1, TOP_K, device=device) if state._sampled else None
        self._state = state
        for _ in range(2):  # kernels are compiled, and libraries allocate what a capture must not see
            self._run()
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._codes = self._run()

    def replay(self, hidden: torch.Tensor, first: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        count = first.shape[0]
        self._hidden[:count].copy_(hidden)
        self._first[:count].copy_(first)
        if self._noise is not None and noise is not None:
            self._noise[:count].copy_(noise)
        self._graph.replay()
        return self._codes[:count].clone()

    def _run(self) -> torch.Tensor:
        embedded = self._state.model.embed_input_ids(self._first)
        codes: torch.Tensor = self._state._predictor(self._hidden, embedded, self._noise)
        return codes


class SpeechSampler(Sampler):
    """vLLM's sampler, then the other codes. They leave where the ids of the likeliest tokens would: in the logprobs."""

    _state: SpeechState

    @classmethod
    def around(cls, sampler: Sampler, state: SpeechState) -> Self:
        """``sampler`` with all its state."""
        made = object.__new__(cls)
        made.__dict__.update(sampler.__dict__)
        made._state = state
        return made

    def get_logprobs_dims(self, *_: Any, **__: Any) -> None:
        """No logprobs are computed, though requests ask for them."""

    def __call__(self, logits: torch.Tensor, input_batch: InputBatch) -> SamplerOutput:
        output = super().__call__(logits, input_batch)
        first = output.sampled_token_ids.view(-1)
        codes = self._state.predict(first, input_batch, output.num_sampled)
        columns = torch.cat((first[:, None], codes), dim=1).to(torch.int32)
        output.logprobs_tensors = LogprobsTensors(
            columns, torch.zeros_like(columns, dtype=torch.float32), torch.ones_like(first)
        )
        return output
