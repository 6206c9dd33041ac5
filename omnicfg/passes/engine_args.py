"""Pass 8: deploy fields and topology → the engine args, runtime and extras that each stage is started with.

The order of precedence is vLLM-Omni 0.30.0's (``_build_engine_args``, ``_build_extras``, ``merge_pipeline_deploy``):
topology, pipeline-wide fields, the stage's own fields, ``engine_extras``, and last what the compiler derives.
"""

from __future__ import annotations

from typing import Any, Final

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.passes.deploy import EXTRAS_WIN
from omnicfg.passes.inherit import expect_mapping
from omnicfg.passes.topology import stage_async_chunk
from omnicfg.refusals import refuse
from omnicfg.tree import Beaten, Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence, over, plain

_DERIVED_RUNNER: Final = ("use_v2_model_runner", "supports_native_mrv2_data_plane")
_STAGE_OVER_PIPELINE: Final = "the stage's own setting goes over the pipeline-wide one"
_PROMPT_HOOKS: Final = ("prompt_transform_func", "prompt_expand_func", "cfg_kv_collect_func")
_MERGE_SOURCE: Final = Mark("vllm_omni/config/stage_config.py")


def engine_args(tree: Mapping, *, profile: str, platform: str, pipeline: str) -> Mapping:
    """The plan's tree: ``profile``, ``platform``, ``pipeline``, ``deploy`` and the final ``stages``."""
    deploy, stages = tree.mapping("deploy"), tree.sequence("stages")
    plan = Mapping({}, tree.layer, tree.mark)
    request = Layer(LayerKind.OVERRIDE)
    for name, value in (("profile", profile), ("platform", platform), ("pipeline", pipeline)):
        plan.put(name, Scalar(value, request, Mark("command line")))
    plan.put("deploy", deploy)
    final: list[Node] = [_Stage(deploy, entry).final() for entry in stages.mappings()]
    plan.put("stages", Sequence(final, stages.layer, stages.mark))
    return plan


def derived(value: Any, source: Node, what: str) -> Node:
    """A value that the compiler computes from a setting: it lies where that setting lies."""
    return Scalar(value, source.layer, source.mark, (Beaten(source, f"derived from `{what}`"), *source.beaten))


def _over_pipeline_wide(own: Node, wide: Node) -> Node:
    """A stage's own setting over the pipeline-wide one.

    A pipeline-wide ``--set`` went over the stage's own setting, too, and stands in its history: it is told once, and
    what it won against as the pipeline-wide setting comes last.
    """
    told = {(node.layer, node.mark) for node in (own, *(beaten.node for beaten in own.beaten))}
    if (wide.layer, wide.mark) not in told:
        return over(own, wide, _STAGE_OVER_PIPELINE)
    joined = own.copy()
    joined.beaten += tuple(lost for lost in wide.beaten if (lost.node.layer, lost.node.mark) not in told)
    if isinstance(joined, Mapping) and isinstance(wide, Mapping):
        for key in joined.items.keys() & wide.items.keys():
            joined.items[key] = _over_pipeline_wide(joined.items[key], wide.items[key])
    return joined


class _Stage:
    """Assembles one stage from its topology (``ps``) and its deploy fields (``ds``, absent: nothing configured)."""

    def __init__(self, deploy: Mapping, entry: Mapping) -> None:
        topology = entry.mapping("topology")
        configured = entry.mapping("deploy") if "deploy" in entry.items else None
        self.deploy = deploy
        self.ps = topology
        self.ds = configured
        self.stage_id = topology.value("stage_id")
        self.kind = deploy_schema().execution_types[topology.value("execution_type")]
        self.async_chunk, self.async_chunk_by = stage_async_chunk(deploy, configured)
        self.args = Mapping({}, topology.layer, topology.mark)

    def final(self) -> Mapping:
        self._topology_args()
        self._pipeline_wide_args()
        self._own_args()
        self._derived_args()
        scheduler = self._scheduler()
        ps = self.ps
        stage = Mapping({}, ps.layer, ps.mark)
        for name in ("stage_id", "model_stage"):
            stage.put(name, ps.items[name])
        stage.put("stage_type", derived(self.kind["stage_type"], ps.items["execution_type"], "execution_type"))
        stage.put("worker_type", derived(self.kind["worker_type"], ps.items["execution_type"], "execution_type"))
        stage.put("scheduler_cls", scheduler)
        for name in ("input_sources", "final_output", "final_output_type", "hf_config_name"):
            stage.put(name, ps.items[name])
        stage.put("is_comprehension", ps.items["owns_tokenizer"])
        stage.put("custom_process_input_func", self._input_processor())
        stage.put("sampling_constraints", ps.items["sampling_constraints"])
        stage.put("engine_args", self.args)
        stage.put("runtime", self._runtime())
        stage.put("extras", self._extras())
        return stage

    def _put(self, name: str, node: Node, reason: str) -> None:
        self.args.put(name, over(node, self.args.items.get(name), reason))

    def _topology_args(self) -> None:
        ps, args = self.ps, self.args
        args.put("model_arch", ps.items["model_arch_effective"])
        args.put("retains_state_across_chunks", ps.items["retains_state_across_chunks"])
        if ps.value("execution_type") == "diffusion" and ps.value("model_arch"):
            args.put("model_class_name", ps.items["model_arch"])
        self._put_if_set("engine_output_type")
        producer = self._next_stage_processor()
        if producer is not None:
            args.put("custom_process_next_stage_input_func", producer)
        for name in ("model_subdir", "tokenizer_subdir", "model_path_resolver"):
            self._put_if_set(name)
        args.put("inline_diffusion", ps.items["inline_diffusion"])
        for name in ("stage_input_payload_keys", "stage_output_payload_keys"):
            self._put_if_set(name)

    def _put_if_set(self, name: str) -> None:
        if self.ps.value(name):
            self.args.put(name, self.ps.items[name])

    def _next_stage_processor(self) -> Node | None:
        chunked = self.ps.items["async_chunk_process_next_stage_input_func"]
        whole = self.ps.items["custom_process_next_stage_input_func"]
        chosen = over(chunked, whole, "async_chunk is on") if self.async_chunk and plain(chunked) else whole
        return chosen if plain(chosen) else None

    def _input_processor(self) -> Node:
        always, sync = self.ps.items["custom_process_input_func"], self.ps.items["sync_process_input_func"]
        chunked = self.ps.value("async_chunk_process_next_stage_input_func")
        if self.async_chunk and chunked:
            return always
        if not self.async_chunk and plain(sync):
            return over(sync, always, "async_chunk is off")
        return always

    def _pipeline_wide_args(self) -> None:
        for name in deploy_schema().pipeline_wide:
            node = self.deploy.items[name]
            if plain(node) is not None:
                self._put(name, node, "a pipeline-wide field goes over the topology")

    def _own_args(self) -> None:
        if self.ds is None:
            return
        for name, node in self.ds.items.items():
            assert isinstance(name, str)
            if name not in deploy_schema().reserved_keys and not (isinstance(node, Scalar) and node.value is None):
                self._put(name, node, _STAGE_OVER_PIPELINE)
        extras = expect_mapping(self.ds.items["engine_extras"], "engine_extras")
        for reserved in _DERIVED_RUNNER:
            if reserved in extras.items:
                self._refuse_reserved(reserved, extras)
        for key, node in extras.items.items():
            if not isinstance(key, str):
                refuse("unsupported-yaml", extras.key_mark(key), f"the engine arg {key!r} is not a name")
            if key in deploy_schema().pipeline_wide and key in self.args.items:
                self.args.put(key, _over_pipeline_wide(node, self.args.items[key]))
            else:
                self._put(key, node, EXTRAS_WIN)

    def _refuse_reserved(self, name: str, extras: Mapping) -> None:
        refuse(
            "reserved-engine-arg",
            extras.key_mark(name),
            f"stage {self.stage_id}: `{name}` follows from `model_runner` and the pipeline; it cannot be set",
            "Set `model_runner: v2` for the profile instead.",
            stage_id=self.stage_id,
        )

    def _derived_args(self) -> None:
        deploy, ps = self.deploy, self.ps
        self._put("async_chunk", derived(self.async_chunk, self.async_chunk_by, "async_chunk"), "decided for the stage")
        self._put("session_mode", deploy.items["session_mode"], "one session mode for the pipeline")
        if deploy.value("session_mode") == "duplex":
            session = deploy.mapping("duplex_session")
            self._put("duplex_max_sessions", session.items["max_sessions"], "`duplex_session.max_sessions` decides")
        runner = deploy.items["model_runner"]
        self.args.put("use_v2_model_runner", derived(plain(runner) == "v2", runner, "model_runner"))
        native = ps.items["supports_native_mrv2_data_plane"]
        self.args.put("supports_native_mrv2_data_plane", derived(bool(plain(native)), native, "the topology"))
        if ps.value("omni_kv_config"):
            self._put("omni_kv_config", ps.items["omni_kv_config"], "the topology decides")
        self._put("requires_full_payload_input", ps.items["requires_full_payload_input"], "the topology decides")
        if not ps.value("requires_multimodal_data") and "skip_mm_profiling" not in self.args.items:
            why = derived(True, ps.items["requires_multimodal_data"], "requires_multimodal_data")
            self.args.put("skip_mm_profiling", why)

    def _scheduler(self) -> Node:
        wanted = self.args.items.get("async_scheduling")
        is_async = True if wanted is None else bool(plain(wanted))
        by_kind = self.kind["scheduler"]
        source = wanted or self.ps.items["execution_type"]
        path = by_kind["async" if is_async else "sync"]
        if self.ps.value("execution_type") == "llm_ar":
            self.args.put("async_scheduling", derived(is_async, source, "async_scheduling"))
        own = self.ps.items["scheduler_cls"]
        chosen = derived(path, source, "async_scheduling")
        return over(own, chosen, "the topology names its scheduler") if plain(own) else chosen

    def _runtime(self) -> Mapping:
        runtime = Mapping({}, self.ps.layer, self.ps.mark)
        runtime.put("process", Scalar(True, Layer(LayerKind.DEFAULT, "vllm-omni"), _MERGE_SOURCE))
        if self.ds is not None:
            for name in ("devices", "num_replicas", "env"):
                node = self.ds.items[name]
                if name == "num_replicas" or plain(node) is not None:
                    runtime.put(name, node)
        runtime.put("requires_multimodal_data", self.ps.items["requires_multimodal_data"])
        return runtime

    def _extras(self) -> Mapping:
        extras = Mapping({}, self.ps.layer, self.ps.mark)
        sampling = self._sampling()
        if sampling.items:
            extras.put("default_sampling_params", sampling)
        for name in ("default_pooling_params", "output_connectors", "input_connectors"):
            node = None if self.ds is None else self.ds.items[name]
            if node is not None and plain(node):
                extras.put(name, expect_mapping(node, name))
        for name in _PROMPT_HOOKS:
            if self.ps.value(name):
                extras.put(name, self.ps.items[name])
        for key, node in self.ps.mapping("extras").items.items():
            extras.put(key, over(node, extras.items.get(key), "the topology decides"))
        return extras

    def _sampling(self) -> Mapping:
        constraints = self.ps.mapping("sampling_constraints")
        written = None if self.ds is None else self.ds.items["default_sampling_params"]
        params = Mapping({}, constraints.layer, constraints.mark)
        if written is not None and plain(written):
            params = expect_mapping(written, "default_sampling_params").copy()
        for key, required in constraints.items.items():
            asked = params.items.get(key)
            node = self._stop_token_ids(asked, required) if key == "stop_token_ids" else required
            params.put(key, over(node, asked, "the topology's sampling constraint wins"))
        return params

    def _stop_token_ids(self, asked: Node | None, required: Node) -> Node:
        """The union of both lists, first mention first."""
        if asked is None or not plain(asked):
            return required
        if not isinstance(asked, Sequence) or any(isinstance(item, Mapping | Sequence) for item in asked.items):
            refuse("wrong-container", asked.mark, "`stop_token_ids` is a list of token ids", stage_id=self.stage_id)
        assert isinstance(required, Sequence)
        united: dict[Any, Node] = {}
        for item in (*asked.items, *required.items):
            united.setdefault(plain(item), item)
        return Sequence(list(united.values()), required.layer, required.mark)
