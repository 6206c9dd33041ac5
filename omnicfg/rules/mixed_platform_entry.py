"""OC304: a setting of a platform's entry that is dropped, because the entry is written in two ways at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.plan import CONNECTOR_SIDES
from omnicfg.rule import DEFAULT_ENGINE, Finding, Rule, Subject
from omnicfg.tree import Mapping, Mark, Sequence

RULE = Rule(
    code="OC304",
    name="mixed-platform-entry",
    severity=Severity.ERROR,
    what=(
        "An entry of a platform's block that has `engine_args` beside keys of its own, which are dropped; or "
        "`runtime` without `engine_args`, which is no setting there."
    ),
    why=(
        "In `stages:` both ways of writing a stage may be mixed; in a platform's block they may not. An entry with "
        "`engine_args` is read for that block and for `runtime`, and nothing else: its `devices`, its memory share, "
        "its sampling parameters do nothing. An entry without it is read flat, and `runtime` is then handed to the "
        "engine as an argument that it refuses."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
platforms:
  npu:
    stages:
      - stage_id: 0
        devices: "1"
        engine_args: {max_num_seqs: 1}
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
platforms:
  npu:
    stages:
      - stage_id: 0
        devices: "1"
        max_num_seqs: 1
""",
)

_READ = ("stage_id", "engine_args", "runtime")


def check_profile(subject: Subject) -> Iterator[Finding]:
    """The entries of every platform's block, merged over all files as they are read."""
    blocks = subject.profile.raw.items.get("platforms")
    for name, block in blocks.items.items() if isinstance(blocks, Mapping) else ():
        stages = block.items.get("stages") if isinstance(block, Mapping) else None
        if name in deploy_schema().platforms and isinstance(stages, Sequence):
            for entry in stages.mappings():
                yield from _dropped(entry, str(name), subject)


def _dropped(entry: Mapping, platform: str, subject: Subject) -> Iterator[Finding]:
    stage_id = entry.value("stage_id")
    if "engine_args" not in entry.items:
        if "runtime" in entry.items:
            message = f"`runtime` of stage {stage_id} is not read in a platform's entry without `engine_args`"
            yield Finding(
                entry.key_mark("runtime"), message, "Write its keys directly into the entry.", stage_id, platform
            )
        return
    places: dict[Mark, list[Hashable]] = {}
    for key in entry.items:
        if key not in _READ and _has_a_place(key, stage_id, subject):
            places.setdefault(_blamed(entry, key, subject), []).append(key)
    for mark, keys in places.items():
        names = ", ".join(f"`{key}`" for key in keys)
        verb = "is" if len(keys) == 1 else "are"
        yield Finding(
            mark,
            f"{names} of stage {stage_id} {verb} dropped: a platform's entry with `engine_args` is read for that "
            "and for `runtime` only",
            "Write the whole entry without `engine_args:`, its keys beside the others.",
            stage_id,
            platform,
        )


def _has_a_place(key: Hashable, stage_id: object, subject: Subject) -> bool:
    """Whether the key would count if the entry were flat: one that no such stage has is told as unknown already.

    vLLM-Omni reads no connectors from a platform's block, however it is written.
    """
    schema = deploy_schema()
    if key in CONNECTOR_SIDES:
        return subject.engine != DEFAULT_ENGINE
    kind = subject.stage_kind(stage_id)
    owned = schema.owners[kind] if kind else frozenset().union(*schema.owners.values())
    return key in owned or key in schema.reserved_keys or (subject.engine != DEFAULT_ENGINE and kind != "diffusion")


def _blamed(entry: Mapping, key: Hashable, subject: Subject) -> Mark:
    """The key, or the `engine_args` of a file on top of it that made it one to drop."""
    rank_of = subject.losses.rank_of
    own, block = entry.key_mark(key), entry.key_mark("engine_args")
    return block if rank_of(own) < rank_of(block) else own
