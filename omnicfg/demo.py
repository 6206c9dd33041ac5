"""``make demo``: the product's main job on its embedded default, for real.

A profile is compiled, checked and served on the CPU; two chat requests that share a long prompt prefix go through the
OpenAI client, and the second one's prefix-cache hit is shown from two sides: the answer's usage and the server's
metrics. A third one is answered in speech. The exit status is 0 only where there was a hit, speech could be heard and,
afterwards, no process is left.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from omnicfg.serve.processes import children, session_members

PROFILE: Final = "tiny-omni"
REAL_PROFILE: Final = "minicpmo_4_5_turn"
OMNICFG: Final = (sys.executable, "-m", "omnicfg.cli")

SHARED_PREFIX: Final = (
    "You answer the visitors of a small library by the river. It opens at nine and closes at six, on Sundays it stays "
    "closed. The reading room is on the second floor, the children's books are by the blue door, and the maps are kept "
    "in the cellar, where you have to ask for them. Be short, be kind, and never invent a book that is not there. "
) * 3
QUESTIONS: Final = ("What time does the library open?", "Where do I find the maps?")

_START_S: Final = 600.0
_STOP_S: Final = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; the exit status."""
    about = "Compiles, checks and serves the embedded default on this machine's CPU: a prefix-cache hit, and speech."
    argparse.ArgumentParser(prog="python -m omnicfg.demo", description=about).parse_args(arguments)
    heading("A profile of the shipped library, compiled for one platform: every value knows where it comes from")
    omnicfg("explain", REAL_PROFILE, "stages.0.enable_prefix_caching", "--platform", "npu")
    omnicfg("validate", REAL_PROFILE, "--platform", "npu")
    heading("The embedded default, compiled and checked for the engine that will serve it")
    omnicfg("resolve", PROFILE)
    omnicfg("validate", PROFILE, "--engine", "bundled")
    heading("Served on this machine's CPU (random weights: the words mean nothing, the computation is real)")
    with Server() as server:
        first, second = ask(server.url)
        hits, queries = cache_counters(server.url)
        heard = speak(server.url, server.log.with_name("answer.wav"))
    leftovers = left_of(server.session)
    print(f"\nPrefix cache: {second} of the second prompt's tokens were not computed again ({first} of the first's).")
    print(f"The server counts {hits} hits among {queries} prompt tokens.")
    print(f"Server stopped with status {server.status}; {len(leftovers)} processes left.")
    return verdict(second, hits, heard, server.status, leftovers)


def verdict(cached_tokens: int, hits: int, speech_s: float, status: int | None, leftovers: list[int]) -> int:
    """0 where the demo has shown what it promises."""
    failures = [
        text
        for failed, text in (
            (cached_tokens <= 0, "the second request's usage shows no cached tokens"),
            (hits <= 0, "the server's metrics show no prefix-cache hit"),
            (speech_s <= 0, "no speech was heard"),
            (status != 0, f"the server stopped with status {status}"),
            (bool(leftovers), f"processes are left: {leftovers}"),
        )
        if failed
    ]
    print("FAILED: " + "; ".join(failures) if failures else "OK")
    return 1 if failures else 0


def heading(text: str) -> None:
    print(f"\n# {text}", flush=True)


def omnicfg(*words: str) -> None:
    """Runs a command as a user would, output and all; a failure ends the demo."""
    print(f"\n$ omnicfg {' '.join(words)}", flush=True)
    subprocess.run([*OMNICFG, *words], check=True)


# ------------------------------------------------------------------------------------------------------------- requests


def ask(url: str) -> list[int]:
    """Both questions through the OpenAI client, answers printed; how many prompt tokens of each were cached."""
    import openai

    cached: list[int] = []
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        for question in QUESTIONS:
            messages: Any = [{"role": "system", "content": SHARED_PREFIX}, {"role": "user", "content": question}]
            started = time.monotonic()
            answer = client.chat.completions.create(model=PROFILE, messages=messages, max_tokens=24)
            elapsed = time.monotonic() - started
            details = answer.usage.prompt_tokens_details
            cached.append(details.cached_tokens or 0 if details else 0)
            print(f"\nuser       {question}\nassistant  {answer.choices[0].message.content!r}")
            print(
                f"           {answer.usage.prompt_tokens} prompt tokens, {cached[-1]} from the cache, {elapsed:.2f} s"
            )
    return cached


def speak(url: str, file: Path) -> float:
    """A question that is answered in speech, written to ``file``; how many seconds of it there are."""
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        messages: Any = [{"role": "user", "content": QUESTIONS[0]}]
        audio: Any = {"voice": "ethan", "format": "wav"}
        started = time.monotonic()
        answer = client.chat.completions.create(
            model=PROFILE, messages=messages, max_tokens=24, modalities=["text", "audio"], audio=audio
        )
    spoken = answer.choices[0].message.audio
    if spoken is None:
        return 0.0
    file.write_bytes(base64.b64decode(spoken.data))
    with wave.open(str(file)) as frames:
        seconds: float = frames.getnframes() / frames.getframerate()
    print(f"\nuser       {QUESTIONS[0]}\nassistant  {spoken.transcript!r}, spoken: {file}")
    print(f"           {seconds:.1f} s of speech in {time.monotonic() - started:.2f} s")
    return seconds


def cache_counters(url: str) -> tuple[int, int]:
    """Hits and queries of vLLM's prefix cache, in tokens, from the server's Prometheus metrics."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy has no business with loopback
    with opener.open(f"{url}/metrics", timeout=30) as response:
        text = response.read().decode()
    return counter(text, "vllm:prefix_cache_hits_total"), counter(text, "vllm:prefix_cache_queries_total")


def counter(metrics: str, name: str) -> int:
    """The sum of a counter over its label sets; 0 where it does not occur."""
    values = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", metrics, re.MULTILINE)
    return int(sum(float(value) for value in values))


# --------------------------------------------------------------------------------------------------------------- server


class Server:
    """``omnicfg serve`` on a free loopback port, for the length of a ``with`` block."""

    def __init__(self) -> None:
        self.url = ""
        self.session = 0
        self.status: int | None = None
        self.log = Path(tempfile.mkdtemp(prefix="omnicfg-demo-")) / "server.log"

    def __enter__(self) -> Server:
        words = ("serve", PROFILE, "--port", "0")
        print(f"\n$ omnicfg {' '.join(words)}        # the server's own messages: {self.log}", flush=True)
        environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1"}  # the demo reports to nobody
        self.process = subprocess.Popen(
            [*OMNICFG, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._keep_messages, args=(self.process.stderr,), daemon=True).start()
        deadline = threading.Timer(_START_S, self.process.terminate)
        deadline.start()
        line = self.process.stdout.readline() if self.process.stdout else ""
        deadline.cancel()
        ready = re.search(r"http://\S+(?=/v1)", line)
        if ready is None:
            self._stop()
            raise SystemExit(f"the server did not start; the end of its messages:\n{self._last_messages()}")
        print(line, end="", flush=True)
        self.url = ready[0]
        [self.session] = children(self.process.pid)  # vLLM leads a session of its own
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        """Ctrl-C, as a user would."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.status = self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _keep_messages(self, messages: IO[str]) -> None:
        """Everything into the log; what omnicfg itself says, on the screen as well."""
        with self.log.open("w", encoding="utf-8") as log:
            for line in messages:
                log.write(line)
                log.flush()
                if line.startswith("omnicfg serve:"):
                    print(line, end="", flush=True)

    def _last_messages(self) -> str:
        return "".join(self.log.read_text(encoding="utf-8").splitlines(keepends=True)[-30:])


def left_of(session: int, patience_s: float = 5.0) -> list[int]:
    """The processes of a session that are still there after ``patience_s`` seconds."""
    deadline = time.monotonic() + patience_s
    while (found := session_members(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


if __name__ == "__main__":
    sys.exit(main())
