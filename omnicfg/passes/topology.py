"""Pass 7: the pipeline's fixed topology joins the deploy tree.

Returns a tree with two entries: ``deploy`` (the pipeline-wide fields) and ``stages``, one entry for each stage of
the pipeline with its ``topology`` and, where the profile configures it, its ``deploy`` fields. Deploy stages that
match no stage of the pipeline fall away here, as they do upstream (a rule reports them).
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from collections.abc import Mapping as MappingOf
from typing import Any

from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema, pipelines
from omnicfg.passes.deploy import default_node
from omnicfg.passes.inherit import stage_id_of
from omnicfg.refusals import refuse
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence, grow, over, plain
from omnicfg.wording import in_yaml


def apply_topology(tree: Mapping, pipeline_key: str, platform: str) -> Mapping:
    """The joined tree. Refuses what vLLM-Omni refuses: v2 on npu and xpu, async_chunk that the edges cannot carry."""
    _check_runner(tree, platform)
    topology = topology_tree(pipeline_key)
    stages_by_id = _stages_by_id(tree)
    _check_overridden_stages(stages_by_id, topology, pipeline_key)
    deploy = tree.without("stages")
    if len(topology) <= 1:
        deploy.put("async_chunk", _single_stage_async_chunk(deploy.items["async_chunk"], pipeline_key))
    joined: list[Node] = []
    for stage in topology:
        entry = Mapping({"topology": stage}, stage.layer, stage.mark)
        configured = stages_by_id.get(stage.value("stage_id"))
        if configured is not None:
            entry.put("deploy", configured)
        joined.append(entry)
    result = Mapping({"deploy": deploy, "stages": Sequence(joined, tree.layer, tree.mark)}, tree.layer, tree.mark)
    _check_async_chunk(result, pipeline_key)
    return result


@functools.cache
def topology_tree(pipeline_key: str) -> tuple[Mapping, ...]:
    """The stages of a pipeline as trees, every field placed at its line in the source that declares it."""
    pipeline = pipelines()[pipeline_key]
    layer = Layer(LayerKind.TOPOLOGY, pipeline_key)
    return tuple(_topology_stage(stage, pipeline, layer) for stage in pipeline["stages"])


def _topology_stage(stage: MappingOf[str, Any], pipeline: MappingOf[str, Any], layer: Layer) -> Mapping:
    file, lines = pipeline["source"]["file"], stage["lines"]
    fields = deploy_schema().topology_fields
    entry = Mapping({}, layer, _line(file, lines[""]))
    for name, value in stage.items():
        if name in lines:
            entry.put(name, grow(value, layer, _line(file, lines[name])))
        elif name in fields:
            entry.put(name, default_node(fields[name]))
    if stage.get("model_arch") or not pipeline.get("model_arch"):
        entry.put("model_arch_effective", entry.items["model_arch"])
    else:
        line = pipeline["lines"].get("model_arch", pipeline["source"]["line"])
        entry.put("model_arch_effective", grow(pipeline["model_arch"], layer, _line(file, line)))
    return entry


def _line(file: str, line: int) -> Mark:
    return Mark(file, line, 1, line, 1)


def _stages_by_id(tree: Mapping) -> dict[Hashable, Mapping]:
    return {stage_id_of(stage): stage for stage in tree.sequence("stages").mappings()}


def _check_runner(tree: Mapping, platform: str) -> None:
    runner = tree.items["model_runner"]
    schema = deploy_schema()
    if plain(runner) not in schema.model_runners:
        refuse("bad-model-runner", runner.mark, f"`model_runner` is {in_yaml(plain(runner))}; it has to be v1 or v2")
    if plain(runner) == "v2" and platform in schema.v2_refused_on:
        refuse(
            "runner-on-platform",
            runner.mark,
            "Model Runner V2 does not run on this platform: its workers still move data by the older chunk transfer",
            _without_v2(runner),
            platform=platform,
        )


def _check_overridden_stages(stages: dict[Hashable, Mapping], topology: tuple[Mapping, ...], pipeline: str) -> None:
    ids = [stage.value("stage_id") for stage in topology]
    for stage_id, stage in stages.items():
        if stage_id not in ids and stage.layer.kind is LayerKind.OVERRIDE:
            known = ", ".join(str(known_id) for known_id in ids)
            refuse(
                "bad-override", stage.mark, f"pipeline {pipeline} has no stage {stage_id}", f"Its stages are {known}."
            )


def _without_v2(runner: Node) -> str:
    if runner.layer.kind is LayerKind.OVERRIDE:
        return f"`{runner.mark.file}` holds on every platform and goes over every file: leave it out on this one."
    if runner.layer.kind is LayerKind.PLATFORM:
        from omnicfg.origins import told_to_set

        return f"{told_to_set('model_runner', 'v1', runner)}."
    return "Set `model_runner: v1` in the block of the platform, under `platforms:`."


def _single_stage_async_chunk(node: Node, pipeline_key: str) -> Node:
    mark = Mark("vllm_omni/config/stage_config.py")
    off = Scalar(False, Layer(LayerKind.TOPOLOGY, pipeline_key), mark)
    return over(off, node, f"a single-stage pipeline hands nothing on (vllm-omni {VLLM_OMNI})")


def stage_async_chunk(deploy: Mapping, stage: Mapping | None) -> tuple[bool, Node]:
    """Whether a stage works in async chunks, and the setting that decided it."""
    pipeline_wide = deploy.items["async_chunk"]
    own = None if stage is None else stage.items.get("async_chunk")
    if own is not None and plain(own) is False:
        return False, over(own, pipeline_wide, "the stage opts out")
    return bool(plain(pipeline_wide)), pipeline_wide


def _check_async_chunk(tree: Mapping, pipeline_key: str) -> None:
    deploy = tree.mapping("deploy")
    entries: dict[Hashable, tuple[Mapping, Mapping | None]] = {}
    for entry in tree.sequence("stages").mappings():
        topology = entry.mapping("topology")
        configured = entry.mapping("deploy") if "deploy" in entry.items else None
        entries[topology.value("stage_id")] = (topology, configured)
    connected = any(topology.value("input_sources") for topology, _ in entries.values())
    producer = any(topology.value("async_chunk_process_next_stage_input_func") for topology, _ in entries.values())
    setting = deploy.items["async_chunk"]
    if plain(setting) and connected and not producer:
        from omnicfg.origins import told_to_set

        by_default = setting.layer.kind is LayerKind.DEFAULT
        refuse(
            "no-async-chunk",
            Mark(tree.mark.file, 1, 1, 1, 1) if by_default else setting.mark,
            f"`async_chunk` is on, but no stage of pipeline {pipeline_key} can hand on chunks",
            told_to_set("async_chunk", "false", setting) + (" (it is on by default)." if by_default else "."),
        )
    for topology, configured in entries.values():
        for source_id in topology.value("input_sources"):
            _check_edge(deploy, entries[source_id], (topology, configured), pipeline_key)


def _check_edge(
    deploy: Mapping,
    producer: tuple[Mapping, Mapping | None],
    consumer: tuple[Mapping, Mapping | None],
    pipeline_key: str,
) -> None:
    if not producer[0].value("async_chunk_process_next_stage_input_func"):
        return
    produces, produces_by = stage_async_chunk(deploy, producer[1])
    consumes, consumes_by = stage_async_chunk(deploy, consumer[1])
    if produces != consumes:
        off = produces_by if not produces else consumes_by
        ids = f"{producer[0].value('stage_id')} -> {consumer[0].value('stage_id')}"
        refuse(
            "async-chunk-edge",
            off.mark,
            f"stages {ids} of pipeline {pipeline_key} disagree on `async_chunk`",
            "Set it alike on both stages, or turn it off for the whole pipeline.",
        )
