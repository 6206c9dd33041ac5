"""vLLM's scheduler, but without requests that cannot take a step: no text to read yet, or a client that is behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.v1.core.sched.scheduler import Scheduler

from omnicfg.engine.speech.utterance import of

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request


class SpeechScheduler(Scheduler):
    """Leaves such requests out of a step; they keep their blocks and their place."""

    running: list[Request]

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        """A step without those that wait."""
        waiting = {request.request_id for request in self.running if not _may_step(request)}
        if not waiting:
            return super().schedule(throttle_prefills)
        held = [request for request in self.running if request.request_id in waiting]
        self.running = [request for request in self.running if request.request_id not in waiting]
        try:
            return super().schedule(throttle_prefills)
        finally:
            self.running = [*held, *self.running]


def _may_step(request: Request) -> bool:
    frame = request.num_computed_tokens - request.num_prompt_tokens
    utterance = of(request.sampling_params)
    return utterance is None or frame < 0 or utterance.may_speak(frame)
