"""NOT a server of models: a child program for the tests of supervision. It answers ``/health``, and misbehaves as told.

``fake_server.py PORT [BEHAVIOUR...]``. It starts a helper process in its own session, as vLLM starts engine cores, and
prints ``server PID`` and ``helper PID``. Behaviours: ``dies-early``, ``never-ready``, ``stubborn`` (ignores SIGTERM),
``stubborn-helper``, ``finishes`` (takes half a second to stop and says so).
"""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
import time

_SLEEPER = "import time; time.sleep(600)"
_STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_SLEEPER}"


class Handler(http.server.BaseHTTPRequestHandler):
    behaviours: frozenset[str] = frozenset()

    def do_GET(self) -> None:
        self.send_response(503 if "never-ready" in self.behaviours else 200)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


def main(port: int, behaviours: frozenset[str]) -> int:
    helper = subprocess.Popen([sys.executable, "-c", _STUBBORN if "stubborn-helper" in behaviours else _SLEEPER])
    print("server", os.getpid(), flush=True)
    print("helper", helper.pid, flush=True)
    if "dies-early" in behaviours:
        return 3
    Handler.behaviours = behaviours
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)

    def on_term(_number: int, _frame: object) -> None:
        if "stubborn" not in behaviours:
            threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, on_term)
    server.serve_forever(poll_interval=0.05)
    if "finishes" in behaviours:
        time.sleep(0.5)
        print("finished", flush=True)
    if "stubborn-helper" not in behaviours:
        helper.terminate()
        helper.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), frozenset(sys.argv[2:])))
