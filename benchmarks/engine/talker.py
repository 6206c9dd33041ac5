"""A Talker on vLLM, on a GPU: are its codes those of transformers' modules, and what does a frame cost?

    python -m benchmarks.engine.talker OUT [parity] [cost] [predictor] [--interpreted]

``parity``: the tiny default in float32, greedy, against the executor that computes with transformers' modules, which a
test holds against ``Qwen3OmniMoeForConditionalGeneration.generate``; prompts of text alone, with sounds, pictures and a
video, with all text there, with text that comes while it speaks, and with too few KV blocks. ``--interpreted`` compares
without a GPU (see ``interpreted.py``): what is captured as a graph on a GPU is only compiled there. Its runs can be
asked for one by one: ``reference`` before all others, ``parity:eager``, ``parity:graphs``, ``parity:few``.

``cost``: the dimensions of Qwen3-Omni-30B-A3B's Talker with dummy weights, milliseconds of a frame by concurrency.
``predictor``: the code predictor alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.dummy_models import QWEN3_OMNI
from benchmarks.engine.interpreted import pose_as_cpu_backend
from benchmarks.engine.support import Results, engine_environment
from omnicfg.engine.stages import Executor, StageOptions, make
from omnicfg.engine.transport import Media

DECODER = {
    "architecture": "Qwen3MoeForCausalLM",
    "model_type": "qwen3_moe",
    "names": {"model.codec_embedding": "model.embed_tokens", "codec_head": "lm_head"},
    "mrope_interleaved": True,
}
RECORD = {
    "module": "Qwen3OmniMoeTalkerForConditionalGeneration",
    "config": "talker_config",
    "weights": "talker.",
    "embeddings": "thinker.model.embed_tokens.weight",
    "decoder": DECODER,
}
FRAMES = 96
_DRAWN = 4096
RUNS = {
    "parity": ("reference", "parity:eager", "parity:graphs", "parity:few"),
    "cost": ("cost:greedy", "cost:sampled"),
    "predictor": ("predictor",),
}
"""Each in a process of its own."""
Codes = dict[str, list[list[int]]]


def main() -> int:
    """1 where codes differ, or a run fails."""
    parser = argparse.ArgumentParser(description="A Talker on vLLM.")
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", nargs="*", default=["parity", "cost", "predictor"])
    parser.add_argument("--interpreted", action="store_true", help="without a GPU, by Triton's interpreter")
    parser.add_argument("--inside", help="what this process does (internal)")
    options = parser.parse_args()
    known = {"parity", *RUNS["parity"]} if options.interpreted else {*RUNS, *chain.from_iterable(RUNS.values())}
    if unknown := set(options.parts) - known:
        parser.error(f"no such part{' without a GPU' if options.interpreted else ''}: {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.inside:
        if options.interpreted:
            pose_as_cpu_backend()
        name, _, mode = options.inside.partition(":")
        {"reference": _reference, "parity": _parity, "cost": _cost, "predictor": _predictor}[name](options.out, mode)
        return 0
    failed = 0
    for part in options.parts:
        for run in RUNS.get(part, (part,)):
            began = time.monotonic()
            log = options.out / f"{run.replace(':', '-')}.log"
            with log.open("w") as output:
                command = [sys.executable, "-m", "benchmarks.engine.talker", str(options.out), run, "--inside", run]
                command += ["--interpreted"] if options.interpreted else []
                environment = engine_environment(options.out, TRITON_F32_DEFAULT="ieee")
                code = subprocess.run(
                    command, stdout=output, stderr=subprocess.STDOUT, env=environment, check=False
                ).returncode
            failed += code != 0
            told = [line for line in log.read_text().splitlines() if line.startswith("== ")]
            print(f"{run}: exit {code} after {time.monotonic() - began:.0f} s", *told, sep="\n  ", flush=True)
    return int(failed > 0)


def cases() -> list[tuple[list[int], list[int]]]:
    """(prompt, text) as token ids: chat prompts with an assistant's turn to speak in, and what the Thinker says."""
    from omnicfg.models import tiny_omni

    config = tiny_omni.config()
    source = random.Random(3)
    start, user, assistant = (config[f"{name}_token_id"] for name in ("im_start", "user", "assistant"))
    end = config["im_end_token_id"]
    made = []
    for length, answer in ((5, 12), (17, 40), (40, 3), (9, 70), (64, 25), (3, 1), (33, 33), (12, 50), (21, 8)):
        words = [source.randrange(20, 200) for _ in range(length + answer)]
        prompt = [start, user, words[0], *words[:length], end, words[1], start, assistant, words[2]]
        for media in media_of(len(made)):
            pad = config["thinker_config"][f"{media.modality}_token_id"]
            prompt[media.start : media.start] = [pad] * media.count
        made.append((prompt, words[length:]))
    return made


def media_of(number: int) -> tuple[Media, ...]:
    """Some of the prompts hold a sound, a picture of 2 by 3 tokens, or a video of two such pictures, 2 s apart."""
    return {
        3: (Media("video", 3, 12, {"grid": [2.0, 4.0, 6.0], "seconds": [2.0]}),),
        6: (Media("audio", 3, 6, {}),),
        7: (Media("image", 3, 6, {"grid": [1.0, 4.0, 6.0]}),),
        8: (Media("audio", 3, 5, {}), Media("image", 8, 8, {"grid": [1.0, 8.0, 4.0]})),
    }.get(number, ())


def rows_of(number: int, count: int, width: int) -> Any:
    """Hidden states to be read at the places of media: the same for every executor."""
    import numpy as np

    return np.random.default_rng(number).standard_normal((count, 1, width), dtype=np.float32)


def speak(executor: Executor, chosen: list[int], *, dribble: bool = False, window: int | None = None) -> Codes:
    """Drive an executor as the worker does; the frames of each case."""
    given = cases()
    left = {str(number): list(given[number][1]) for number in chosen}
    frames: Codes = {key: [] for key in left}
    going = set(left)
    for key, text in left.items():
        executor.open(key, {"voice": "ethan"})
        prompt = given[int(key)][0]
        executor.text(key, prompt, prompt=True, last=False)
        if media := media_of(int(key)):
            executor.media(key, media)
            executor.rows(key, 0, rows_of(int(key), len(prompt), executor._own.thinker_hidden_size))  # type: ignore[attr-defined]
        executor.rows_end(key, len(prompt))
        if not dribble:
            executor.text(key, text, prompt=False, last=True)
    idle = 0
    while going and idle < 10_000:
        if dribble:
            for key in going:
                if left[key]:
                    executor.text(key, [left[key].pop(0)], prompt=False, last=not left[key])
        keys = executor.ready()
        idle = 0 if keys else idle + 1
        if keys:
            chunks, ended = executor.run(keys)
            for chunk in chunks:
                assert chunk.start == len(frames[chunk.key]), (chunk.start, len(frames[chunk.key]))
                frames[chunk.key] += chunk.rows.reshape(-1, executor.layout.width).tolist()
            going -= {end.key for end in ended}
        for key in going:
            if window is None or idle:
                executor.credit(key, len(frames[key]))
    assert not going, f"stuck: {going}"
    assert executor.open_requests() == 0
    return frames


def _options(out: Path, **more: Any) -> StageOptions:
    from omnicfg.models import materialize

    model = materialize("builtin:tiny-omni", out)
    sampling = {"temperature": 0.0, "max_tokens": FRAMES, **more.pop("sampling", {})}
    fields = {"limit": 8, "dtype": "float32", "device": _device(), "window": 1000, **more}
    return StageOptions(model=model, record=RECORD, sampling=sampling, **fields)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _reference(out: Path, _: str) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    executor = make("codec-talker", _options(out))
    codes = {**speak(executor, [0]), **speak(executor, list(range(1, 9)))}
    (out / "reference.json").write_text(json.dumps(codes))
    print(f"== {sum(map(len, codes.values()))} frames, {[len(one) for one in codes.values()]}")


def _parity(out: Path, mode: str) -> None:
    engine_args: dict[str, Any] = {
        "gpu_memory_utilization": 0.1,
        "max_model_len": 256,
        "disable_log_stats": False,
        "kv_cache_memory_bytes": 2**28,
    }
    engine_args |= {"attention_backend": "TRITON_ATTN"} if _device() == "cuda" else {}
    engine_args |= {"enforce_eager": True} if mode == "eager" else {}
    engine_args |= {"num_gpu_blocks_override": 10, "block_size": 32} if mode == "few" else {}
    executor = make("vllm-codec-talker", _options(out, engine_args=engine_args))
    expected: Codes = json.loads((out / "reference.json").read_text())
    everyone = list(range(1, 9))
    runs: dict[str, Callable[[], Codes]] = {
        "alone": lambda: speak(executor, [0]),
        "eight": lambda: speak(executor, everyone),
        "text comes late": lambda: speak(executor, everyone, dribble=True),
        "again": lambda: speak(executor, everyone[::-1]),
    }
    wrong = 0
    for name, run in runs.items():
        codes = run()
        same = sum(
            frame == other for key, one in codes.items() for frame, other in zip(one, expected[key], strict=False)
        )
        count = sum(len(expected[key]) for key in codes)
        lengths = all(len(one) == len(expected[key]) for key, one in codes.items())
        wrong += same != count or not lengths
        print(f"== {mode} {name}: {same} of {count} frames, all lengths right: {lengths}")
    metrics = {metric.name: getattr(metric, "value", None) for metric in executor._engine.get_metrics()}  # type: ignore[attr-defined]
    print(f"== {mode} preemptions {metrics.get('vllm:num_preemptions')}")
    if wrong:
        raise SystemExit(1)


def _big(out: Path) -> Path:
    folder = out / "talker-30b"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(QWEN3_OMNI))
    return folder


def _cost(out: Path, mode: str) -> None:
    sampling = (
        {"temperature": 0.0} if mode == "greedy" else {"temperature": 0.9, "top_k": 50, "repetition_penalty": 1.05}
    )
    sampling["max_tokens"] = FRAMES
    engine_args = {
        "load_format": "dummy",
        "gpu_memory_utilization": 0.3,
        "kv_cache_memory_bytes": 4 * 2**30,
        "max_model_len": 4096,
    }
    options = StageOptions(
        model=_big(out),
        record=RECORD,
        limit=64,
        dtype="bfloat16",
        device="cuda",
        window=1000,
        sampling=sampling,
        engine_args=engine_args,
    )
    began = time.monotonic()
    executor = make("vllm-codec-talker", options)
    print(f"== {mode} start {time.monotonic() - began:.0f} s")
    own = executor._config  # type: ignore[attr-defined]
    prompt = [
        own.im_start_token_id,
        own.user_token_id,
        198,
        *range(1000, 1050),
        own.im_start_token_id,
        own.assistant_token_id,
        198,
    ]
    results = Results(out)
    measured: dict[str, Any] = {}
    for count in (1, 8, 64, 1, 8, 32, 64):
        for key in map(str, range(count)):
            executor.open(key, {"voice": "ethan"})
            executor.text(key, prompt, prompt=True, last=False)
            executor.rows_end(key, len(prompt))
            executor.text(key, list(range(2000, 2080)), prompt=False, last=True)
        steps, frames = 0, 0
        began = time.monotonic()
        while executor.open_requests():
            keys = executor.ready()
            if executor._open[keys[0]].slot is not None:  # type: ignore[attr-defined]
                steps += 1
            chunks, _ = executor.run(keys)
            frames += len(chunks)
        seconds = time.monotonic() - began
        measured[str(count)] = {
            "ms_per_step": round(1000 * seconds / steps, 2),
            "frames_per_second": round(frames / seconds, 1),
        }
        print(
            f"== {mode} {count:3} at a time: {1000 * seconds / steps:6.2f} ms a step, {frames / seconds:8.1f} frames/s"
        )
    results.write(f"talker-{mode}", measured)


def _predictor(out: Path, _: str) -> None:
    import torch

    from omnicfg.engine.speech.kernels import TOP_K
    from omnicfg.engine.speech.predictor import CodePredictor, Shape

    shape = Shape.of(QWEN3_OMNI["talker_config"]["code_predictor_config"])
    measured: dict[str, Any] = {}
    with torch.inference_mode():
        with torch.device("cuda"):
            torch.set_default_dtype(torch.bfloat16)
            predictor = CodePredictor(shape)
            torch.set_default_dtype(torch.float32)
        for parameter in predictor.parameters():
            torch.nn.init.normal_(parameter, std=0.02)
        for count in (8, 32, 64):  # the engine computes fewer than eight requests as eight
            hidden, embedded = torch.randn(2, count, shape.hidden, device="cuda", dtype=torch.bfloat16)
            noise = torch.randn(count, shape.codebooks - 1, TOP_K, device="cuda")
            for sampled in (None, noise):
                graph = _captured(lambda: predictor(hidden, embedded, sampled))  # noqa: B023
                ms = _milliseconds(graph)
                name = f"{'greedy' if sampled is None else 'sampled'} {count}"
                measured[name] = round(ms, 3)
                print(f"== predictor {name}: {ms:.2f} ms a frame", flush=True)
            _tell_kernels(graph)
    measured["codes that differ"] = _sampled_otherwise(shape.vocabulary)
    print(f"== predictor: {measured['codes that differ']} of {_DRAWN} sampled codes differ from the plain form's")
    Results(out).write("predictor", measured)


def _sampled_otherwise(width: int) -> int:
    """Codes that the kernel chooses otherwise than PyTorch on the CPU, of the same logits and noise."""
    import torch

    from omnicfg.engine.speech.kernels import TOP_K, sample

    logits, noise = 3 * torch.randn(_DRAWN, width), -torch.rand(_DRAWN, TOP_K).log().neg().log()
    return int((sample(logits.cuda(), noise.cuda()).cpu() != sample(logits, noise)).sum())


def _captured(function: Callable[[], Any]) -> Any:
    import torch

    for _ in range(3):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def _milliseconds(graph: Any, times: int = 50) -> float:
    import torch

    graph.replay()
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(times):
        graph.replay()
    torch.cuda.synchronize()
    return (time.monotonic() - began) * 1000 / times


def _tell_kernels(graph: Any) -> None:
    """Where the time of one frame goes, into the log."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    print(profile.key_averages().table(sort_by="cuda_time_total", row_limit=14, max_name_column_width=70), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.exit(main())
