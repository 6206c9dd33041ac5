"""For each refusal a small profile that causes it, and what vllm-omni 0.30.0 does with the same file.

The reference pages are made from these, and a test holds each to the refusal that it stands under.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PROFILE: Final = "profile.yaml"


@dataclass(frozen=True)
class Example:
    """A profile that is refused, what upstream does, the files beside it, and the command line that shows it."""

    profile: str
    upstream: str
    beside: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ("validate", PROFILE)
    encoding: str = "utf-8"

    def files(self) -> dict[str, bytes]:
        """The bytes of each file by name."""
        return {name: text.encode(self.encoding) for name, text in {PROFILE: self.profile, **self.beside}.items()}


_STAGES: Final = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n"

EXAMPLES: Final[Mapping[str, Example]] = {
    "unreadable-file": Example(
        "pipeline: qwen3_tts # the café voices, saved as Latin-1\n",
        "Ends with the bare error of Python's decoder.",
        encoding="latin-1",
    ),
    "yaml-syntax": Example(f"{_STAGES}  - stage_id: 0\n   max_num_seqs: 8\n", "Refuses it as well."),
    "duplicate-key": Example(
        f"{_STAGES}  - stage_id: 0\n    max_num_seqs: 8\n    max_num_seqs: 16\n", "Refuses it as well."
    ),
    "too-large": Example(
        "pipeline: qwen3_tts\na: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
        "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n",
        "Bounds alias expansion alike.",
    ),
    "unsupported-yaml": Example(
        f"{_STAGES}  - stage_id: 0\n    env: !vault {{TOKEN: x}}\n", "Refuses unknown tags as well."
    ),
    "bad-base": Example(
        "base_config: bsae.yaml\n",
        "Ends with the bare error of Python's `open`.",
        beside={"base.yaml": "pipeline: qwen3_tts\n"},
    ),
    "base-cycle": Example(
        "base_config: base.yaml\n",
        "Follows the chain until Python's recursion limit ends it.",
        beside={"base.yaml": "base_config: profile.yaml\n"},
    ),
    "wrong-container": Example(
        f"{_STAGES}  - stage_id: 0\n    runtime: null\n", "Fails with a bare Python error that names no file."
    ),
    "interpolation": Example(
        f"{_STAGES}  - stage_id: 0\n    max_num_seqs: ${{oc.env:MAX_NUM_SEQS}}\n",
        "Takes in whatever variable of its environment a profile names, and fails where there is none.",
    ),
    "removed-schema": Example(
        "stage_args:\n  - stage_id: 0\n    engine_args: {max_num_seqs: 8}\n", "Refuses it as well."
    ),
    "missing-stage-id": Example(f"{_STAGES}  - max_num_seqs: 8\n", "Fails with a bare `KeyError`."),
    "unknown-pipeline": Example("pipeline: qwen3_ttx\n", "Refuses it as well, when the server starts."),
    "no-pipeline": Example(
        "async_chunk: false\n",
        "Takes the pipeline from the model that is served, and this file for whatever model that is.",
        command=("resolve", PROFILE),
    ),
    "bad-model-runner": Example("pipeline: qwen3_tts\nmodel_runner: V2\n", "Refuses it as well."),
    "runner-on-platform": Example(
        "pipeline: qwen3_tts\nasync_chunk: false\nmodel_runner: v2\n", "Refuses it as well, on that platform."
    ),
    "no-async-chunk": Example("pipeline: glm_image\n", "Refuses it as well. Left out, `async_chunk` is on."),
    "async-chunk-edge": Example(
        "pipeline: qwen3_tts\nasync_chunk: true\nstages:\n  - stage_id: 1\n    async_chunk: false\n",
        "Refuses it as well.",
    ),
    "reserved-engine-arg": Example(
        f"{_STAGES}  - stage_id: 0\n    engine_extras: {{use_v2_model_runner: true}}\n",
        "Refuses it in `merge_pipeline_deploy`; the path that servers start from lets it pass.",
    ),
    "bad-duplex-session": Example(
        "pipeline: qwen3_tts\nduplex_session:\n  max_session: 2\n", "Fails with a bare `TypeError`."
    ),
    "bad-override": Example(
        "pipeline: qwen3_tts\nasync_chunk: false\n",
        "Its command line ignores a setting of a stage that the pipeline lacks, such as `stage_9_max_num_seqs`.",
        command=("resolve", PROFILE, "--set", "stages.0.max_num_seq=8"),
    ),
    "bad-value": Example(
        f"{_STAGES}  - stage_id: 0\n    num_replicas: two\n", "Fails with a bare `ValueError` that names no file."
    ),
    "outside-root": Example(
        "base_config: ../secrets.yaml\n",
        "Reads whatever file a `base_config` names.",
        command=("validate", PROFILE, "--root", "."),
    ),
}
