"""What omnicfg finds in a command line: the kinds of findings, with the pages that explain them."""

from __future__ import annotations

from typing import Final, NamedTuple

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.tree import Mark


class Kind(NamedTuple):
    """A kind of finding: ``bad`` is a command that shows it, ``instead`` what to write."""

    code: str
    severity: Severity
    what: str
    why: str
    bad: str
    instead: str


_SERVE: Final = "vllm serve Qwen/Qwen3-TTS --omni --deploy-config profile.yaml"

KINDS: Final[dict[str, Kind]] = {
    "unknown-flag": Kind(
        "OC851",
        Severity.ERROR,
        "A flag that `vllm serve --omni` does not have, or no longer has.",
        "The server does not start. `--stage-configs-path` is gone, and with it the `stage_args` schema of its files.",
        f"{_SERVE} --stage-configs-path old.yaml",
        "`omnicfg migrate old.yaml -o profile.yaml`, and `--deploy-config profile.yaml`.",
    ),
    "bad-flag-value": Kind(
        "OC852",
        Severity.ERROR,
        "A flag's value that its type or its choices do not allow, or a flag without the value that it needs.",
        "The server does not start.",
        f"{_SERVE} --max-model-len lots",
        "`--max-model-len 8k`.",
    ),
    "refused-flag": Kind(
        "OC853",
        Severity.ERROR,
        "An engine arg that no stage of the pipeline takes, or that one of its stages refuses.",
        "vLLM-Omni refuses to start where an engine arg of the command line has no owner among the stages.",
        f"{_SERVE} --vae-use-tiling",
        "Leave the flag out: the pipeline has no diffusion stage.",
    ),
    "ineffective-flag": Kind(
        "OC854",
        Severity.WARNING,
        "A flag that nothing reads, or an override of a stage that is dropped.",
        "The server starts as if it were not there: `--stage-overrides` for a stage that the pipeline lacks, or for a "
        "key that belongs to the whole server, is dropped without a word.",
        f"{_SERVE} --batch-timeout 5",
        "Leave the flag out.",
    ),
    "stamps-every-stage": Kind(
        "OC855",
        Severity.WARNING,
        "A flag that sets an engine arg on several stages at once, over what the profile says of each.",
        "A flag that is meant for one stage (more memory for the Thinker) takes its value to all others as well.",
        f"{_SERVE} --gpu-memory-utilization 0.9",
        '`--stage-overrides \'{"0": {"gpu_memory_utilization": 0.9}}\'`, or the key in the stage of the profile.',
    ),
    "unset-variable": Kind(
        "OC856",
        Severity.WARNING,
        "A variable, an argument of the script or the output of a command, which nothing in the same file tells.",
        "What it stands for is not known here, so the flag that it belongs to is left out of what is shown.",
        f"{_SERVE} --max-num-seqs $SEQS",
        "Assign it in the file, or give `${SEQS:-8}` a default.",
    ),
}


def finding(
    name: str, mark: Mark, message: str, help: str | None = None, *, severity: Severity | None = None
) -> Diagnostic:
    """A finding of a kind, where a word of the command stands."""
    kind = KINDS[name]
    return Diagnostic.at(mark, kind.code, name, severity or kind.severity, message, help=help)
