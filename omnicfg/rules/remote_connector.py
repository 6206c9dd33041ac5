"""OC504: a connector of several hosts, which the bundled engine does not have."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.payload import ONE_HOST, remote_edges, rows_record
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject

RULE = Rule(
    code="OC504",
    name="remote-connector",
    severity=Severity.WARNING,
    what="On the bundled engine: two stages are joined by a connector that reaches other hosts.",
    why=(
        "The bundled engine hands hidden states and codes over in the memory of one host, whatever the connector's "
        "`extra` says of addresses and devices. Rather than leave a connector out in silence, `serve` starts stage 0 "
        "alone and answers requests for audio with this reason. Between several hosts vLLM-Omni's own connectors carry "
        "them: `--engine vllm-omni` gets them as they are written."
    ),
    bad="""\
pipeline: qwen3_omni_moe
connectors:
  rdma: {name: MooncakeTransferEngineConnector, extra: {protocol: rdma}}
stages:
  - stage_id: 1
    enable_prefix_caching: false
    input_connectors: {from_stage_0: rdma}
""",
    good="""\
pipeline: qwen3_omni_moe
connectors:
  shm: {name: SharedMemoryConnector}
stages:
  - stage_id: 1
    enable_prefix_caching: false
    input_connectors: {from_stage_0: shm}
""",
    engine="bundled",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every reference of every stage, where a later stage takes what the bundled engine hands over."""
    if subject.engine != RULE.engine or rows_record(plan) is None:
        return
    for edge in remote_edges(plan):
        help_ = f"Name a `{ONE_HOST}`, or serve with vLLM-Omni (`--engine vllm-omni`)."
        yield Finding(edge.node.mark, edge.why, help_, edge.stage.stage_id)
