"""OC107: a stage setting inside the free-form config of a plugin."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.keys import blocks_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping

RULE = Rule(
    code="OC107",
    name="misplaced-key",
    severity=Severity.WARNING,
    what="A setting of the stage that stands under `additional_config`, where the engine does not look for it.",
    why=(
        "`additional_config` is handed to the platform's plugin and to the model as it is; any key is taken, and what "
        "nobody there knows does nothing. A setting that the stage itself has (`vae_use_slicing`, `max_num_seqs`) is "
        "read only as the stage's own key."
    ),
    bad="""\
pipeline: glm_image
async_chunk: false
stages:
  - stage_id: 0
  - stage_id: 1
    additional_config: {vae_use_slicing: true}
""",
    good="""\
pipeline: glm_image
async_chunk: false
stages:
  - stage_id: 0
  - stage_id: 1
    vae_use_slicing: true
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """The `additional_config` of every stage, in each of the ways in which a stage may be written."""
    for block in blocks_of(document, subject):
        config = block.node.items.get("additional_config") if block.place == "stage" else None
        for key in config.items if isinstance(config, Mapping) else ():
            if block.known is not None and key in block.known:
                assert isinstance(config, Mapping)
                yield Finding(
                    config.key_mark(key),
                    f"`{key}` under `additional_config` in {block.what} is not read there",
                    f"It is a setting of the stage: write `{key}` beside `additional_config`.",
                    block.stage_id,
                    block.platform,
                )
