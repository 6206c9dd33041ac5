"""The JSON Schema of capability records, with the names that the data of this project knows."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from omnicfg.catalog.capabilities import Situation
from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.evidence import CAPABILITY_OF
from omnicfg.export.schema_parts import DIALECT, Schema, closed
from omnicfg.rule import ENGINES

_TEXT: Final[Schema] = {"type": "string"}
_NAME: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"}
_SETTINGS: Final = {
    "prefix_caching": "Turning this stage's prefix cache on.",
    "model_runner_v2": "Running this stage on MRv2.",
    "duplex": "Serving this stage in duplex sessions.",
    "async_chunk": "Streaming this stage's output to the next one.",
}


def capability_schema() -> Schema:
    """The schema of ``profiles/capabilities/*.yaml``."""
    properties: Schema = {
        "model": _NAME | _told("The record's id, and its file's name."),
        "title": {"type": "string", "minLength": 1} | _told("The model's name as people write it."),
        "pipelines": _set_of(_TEXT | {"examples": sorted(pipelines())})
        | _told("Registry keys of the pipelines that run this model. No two records claim the same one."),
        "stages": {"type": "array", "items": _ref("stage"), "minItems": 1}
        | _told("Every stage of these pipelines, once."),
    }
    return {
        "$schema": DIALECT,
        "$id": "capability.schema.json",
        "title": "Capability record",
        "description": (
            "What is known of one model: for each stage, what a setting does on which engine, runner, session mode and "
            "platform, with the evidence in figures and its public source. In every list the first entry whose `when` "
            "matches is the one that counts."
        ),
        **_block(properties, required=list(properties)),
        "$defs": {
            "stage": _stage(),
            "bundled": _bundled(),
            "entries": {"type": "array", "minItems": 1, "items": _ref("entry")},
            "entry": _entry(),
            "sideEffect": _side_effect(),
            "when": _when(),
            "costs": _costs(),
            "range": {
                "type": "array",
                "description": "Lowest and highest; equal where there is one figure.",
                "items": {"type": "number"},
                "minItems": 2,
                "maxItems": 2,
            },
            "payload": _payload(),
            "sentence": {"type": "string", "pattern": "^(none|.*[.])$"},
            "source": {"type": "string", "minLength": 1, "description": "A public source."},
        },
    }


def _stage() -> Schema:
    names = sorted({stage["model_stage"] for pipeline in pipelines().values() for stage in pipeline["stages"]})
    effects = {"type": "array", "minItems": 1, "items": _ref("sideEffect")}
    return _block(
        {
            "stage": _TEXT
            | {"examples": names}
            | _told("The topology's `model_stage`; the same in each pipeline that has it."),
            "payload": _ref("payload"),
            "bundled": _ref("bundled"),
            **{name: _ref("entries") | _told(_SETTINGS[name]) for name in dict.fromkeys(CAPABILITY_OF.values())},
            "side_effects": effects | _told("What else a combination of settings changes. All that match count."),
        },
        required=["stage"],
    )


def _bundled() -> Schema:
    part = {
        "architecture": _TEXT | _told("The architecture of vLLM that computes it."),
        "model_type": _TEXT | _told("The `model_type` that goes with it."),
        "config": _TEXT | _told("Where its part of config.json is, as a dotted name."),
        "weights": _TEXT | _told("What the names of its tensors begin with."),
    }
    properties: Schema = {
        "executor": _NAME | _told("The kind of stage executor (a module of `omnicfg.engine.stages`)."),
        "module": _TEXT | _told("The class of transformers that holds the stage's weights."),
        "config": _TEXT | _told("Where the stage's part of config.json is, as a dotted name."),
        "weights": _TEXT | _told("What the names of the stage's tensors begin with."),
        "embeddings": _TEXT | _told("The tensor that holds the first stage's text embeddings."),
        "voices": _TEXT | _told("Where config.json lists the voices, as a dotted name."),
        "default_voice": _TEXT | _told("The voice of a request that names none."),
        "sample_rate": {"type": "integer", "minimum": 1}
        | _told("Samples a second of the audio that leaves the stage."),
        "text_part": _block(part, required=list(part))
        | _told(
            "The text model inside the first stage. It is served alone where vLLM cannot import what the stage's "
            "images and sounds need: its build for the CPU has no torchvision."
        ),
    }
    decoder = {
        "architecture": _TEXT | _told("The architecture of vLLM that computes the decoder."),
        "model_type": _TEXT | _told("The `model_type` that goes with it."),
        "names": {"type": "object", "additionalProperties": _TEXT}
        | _told("Modules that the checkpoint calls otherwise than vLLM does: the one name, then the other."),
    }
    required = list(decoder)
    decoder["mrope_interleaved"] = {"type": "boolean"} | _told(
        "How the decoder's angles go to the three axes of M-RoPE: in turns, or in one block for each. Where the record "
        "does not say, the decoder gets one axis, and speech about pictures and videos is refused."
    )
    told = _told("The stage's decoder as vLLM is to compute it.")
    on_cuda = {"executor": properties["executor"], "decoder": _block(decoder, required=required) | told}
    properties["on_cuda"] = _block(on_cuda, required=["executor"]) | _told("What takes its place on a GPU of NVIDIA's.")
    text = "How the bundled engine runs this stage: which part of the checkpoint it is, and what computes it."
    needs = {"executor": ["module", "config", "weights"]}
    return _block(properties) | _told(text) | {"minProperties": 1, "dependentRequired": needs}


def _entry() -> Schema:
    properties: Schema = {
        "when": _ref("when"),
        "verdict": {"enum": ["validated", "unvalidated", "broken", "no-benefit"]}
        | _told(
            "validated: measured, with figures. unvalidated: nobody has shown that it works. broken: shown not to "
            "work. no-benefit: works, gains nothing."
        ),
        "refuse": {"const": True} | _told("Using it here is an error, not merely worth a word."),
        "default": {"type": "boolean"} | _told("What the shipped profiles of this model say here."),
        "evidence": _ref("sentence") | _told("What is known, in figures where there are any; `none` where nothing is."),
        "costs": _ref("costs"),
        "source": _ref("source"),
    }
    refused = {"properties": {"refuse": {"const": True}}, "required": ["refuse"]}
    then = {"properties": {"verdict": {"enum": ["unvalidated", "broken"]}, "default": {"const": False}}}
    return _block(properties, required=["verdict", "evidence", "source"]) | {"if": refused, "then": then}


def _side_effect() -> Schema:
    properties = {
        "when": _ref("when") | {"minProperties": 1},
        "what": _ref("sentence") | _told("What happens, and to whom."),
        "source": _ref("source"),
    }
    return _block(properties, required=list(properties))


def _when() -> Schema:
    """One key for each fact of a situation."""
    kinds: dict[str, Schema] = {
        "engine": {"enum": list(ENGINES)} | _told("What serves it."),
        "pipeline": _set_of(_TEXT | {"examples": sorted(pipelines())}) | _told("Some of the record's pipelines."),
        "platform": _set_of({"enum": list(deploy_schema().platforms)}) | _told("What it is compiled for."),
        "model_runner": {"enum": list(deploy_schema().model_runners)} | _told("vLLM's model runner, on this platform."),
        "session_mode": {"enum": list(deploy_schema().session_modes)}
        | _told("As it is served: duplex only where the pipeline has a duplex plugin."),
        "async_chunk": {"type": "boolean"} | _told("Whether this stage hands on its output in chunks."),
        "prefix_caching": {"type": "boolean"} | _told("This stage's prefix cache, as it takes effect."),
    }
    text = "The setting that an entry is about. A key that is absent matches anything; of a list, any item matches."
    return _block({fact.name: kinds[fact.name] for fact in fields(Situation)}) | _told(text) | {"minProperties": 1}


def _costs() -> Schema:
    shares = {
        "hit_percent": "Share of the stage's prompt tokens that hit.",
        "throughput_percent": "Change of requests per second.",
        "first_packet_percent": "Change of the time to the first audio packet.",
    }
    load = {"load": {"type": "string", "minLength": 1} | _told("What was sent, as its source calls it.")} | {
        name: _ref("range") | _told(text) for name, text in shares.items()
    }
    loads = {"type": "array", "minItems": 1, "items": _block(load, required=["load"]) | {"minProperties": 2}}
    memory = _block({name: _ref("range") for name in ("without", "with", "added")}) | {"minProperties": 1}
    text = (
        "Resident memory of the stage's process (VmRSS) without and with it, lowest and highest seen; `added` alone "
        "where only the difference is known."
    )
    properties = {
        "host_memory_gib": memory | _told(text),
        "loads": loads | _told("Measured loads, each on against off."),
    }
    return _block(properties) | _told("What it was measured to cost and to give.") | {"minProperties": 1}


def _payload() -> Schema:
    layer: Schema = {"oneOf": [{"type": "integer", "minimum": 1}, {"const": "final"}]}
    properties: Schema = {
        "layers": _set_of(layer)
        | _told(
            "Layer numbers as transformers counts hidden states (0 is the embedding, k the output of layer k - 1), or "
            "`final`: after the last norm."
        ),
        "layers_from": _TEXT | _told("Where the checkpoint's config.json says it; it wins over `layers`."),
        "embeddings": {"enum": ["recomputed", "none"]}
        | _told(
            "Whether the next stage also reads input embeddings, and where it gets them: from the token ids, so they "
            "need no row."
        ),
        "positions": {"enum": ["all", "multimodal", "reply"]}
        | _told("Whose rows are read: every token's, those of media in the prompt, or those of the reply."),
        "measures": {"type": "object", "additionalProperties": _set_of(_TEXT), "minProperties": 1}
        | _told(
            "What the next stage has to know of pictures, sounds and videos in the prompt: a name, and the fields of "
            "the model's processor in vLLM of which one says it."
        ),
        "source": _ref("source"),
    }
    required = [name for name in properties if name not in {"layers_from", "measures"}]
    return _block(properties, required=required) | _told("The hidden-state rows of this stage that the next one reads.")


def _told(text: str) -> Schema:
    return {"description": text}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _set_of(items: Schema) -> Schema:
    return {"type": "array", "items": items, "minItems": 1, "uniqueItems": True}


def _block(properties: Schema, *, required: list[str] | None = None) -> Schema:
    return closed(properties) | ({"required": required} if required else {})
