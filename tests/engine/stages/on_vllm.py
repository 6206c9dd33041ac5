"""A program, for ``test_media``: the Talker on vLLM's Model Runner V2, without a GPU.

    python -m tests.engine.stages.on_vllm ASKED ANSWERED

Reads the model and the prompts that it was given, writes the codes of all of them, spoken together, and why two videos
were refused.
"""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.engine.interpreted import pose_as_cpu_backend
from omnicfg.catalog.capabilities import stage_record
from omnicfg.engine.stages import Executor, RequestError, make
from omnicfg.engine.transport import Media
from tests.engine.stages.conftest import options
from tests.engine.stages.test_codec_talker import Listener
from tests.engine.stages.test_media import Shown, begin


def main(asked: Path, answered: Path) -> None:
    model, shown = pickle.loads(asked.read_bytes())  # what the test itself has written
    engine_args = {"kv_cache_memory_bytes": 2**26}
    executor = make("vllm-codec-talker", options(model, "talker", record=on_cuda(), engine_args=engine_args))
    listener = Listener(executor)
    for name, one in shown.items():
        begin(executor, name, one)
    listener.run()
    refused = [why_not(executor, shown["video"], seconds) for seconds in (0.3, 2000.0)]
    answered.write_text(json.dumps([listener.codes, refused]))


def on_cuda() -> dict[str, Any]:
    """The shipped record as a GPU has it."""
    record = stage_record("tiny_omni", "talker")
    assert record is not None
    return {**record["bundled"], **record["bundled"]["on_cuda"]}


def why_not(executor: Executor, video: Shown, seconds: float) -> str:
    """What is said of a video whose frames are that far apart."""
    [shown] = video.media
    slower = Media(shown.modality, shown.start, shown.count, {**shown.measures, "seconds": [seconds]})
    begin(executor, "refused", replace(video, media=(slower,)))
    try:
        executor.run(executor.ready())
    except RequestError as error:
        executor.drop("refused")
        return str(error)
    return "it was not"


if __name__ == "__main__":
    pose_as_cpu_backend()
    main(Path(sys.argv[1]), Path(sys.argv[2]))
