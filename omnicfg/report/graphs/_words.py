"""What the nodes and links of a graph are called, in every format; one line each, credentials hidden."""

from __future__ import annotations

from collections.abc import Iterable

from omnicfg.graph.model import File, Link, Stage
from omnicfg.report.terminal import one_line


def file_details(file: File) -> list[str]:
    """``["base", "platforms npu, rocm"]``"""
    return _shown([file.role, f"platforms {', '.join(file.platforms)}" if file.platforms else ""])


def stage_title(stage: Stage) -> str:
    """``stage 0 thinker``"""
    return one_line(f"stage {stage.stage_id} {stage.name}")


def stage_details(stage: Stage) -> list[str]:
    """``["llm ar", "devices 0,1", "2 replicas", "answers in text", "not in the profile"]``, as far as they hold."""
    return _shown(
        [
            stage.kind,
            f"devices {stage.devices}" if stage.devices is not None else "",
            f"{stage.replicas} replicas" if stage.replicas != 1 else "",
            f"answers in {stage.output}" if stage.output else "",
            "" if stage.is_configured else "not in the profile",
        ]
    )


def link_details(link: Link) -> list[str]:
    """``["shm (SharedMemoryConnector)", "in chunks"]``"""
    connector = link.connector_class if link.connector is None else link.connector
    if link.connector is not None and link.connector_class not in (None, link.connector):
        connector = f"{link.connector} ({link.connector_class})"
    wrong = "" if link.is_real else "no link of the pipeline"
    return _shown([connector or "", "in chunks" if link.in_chunks else "", wrong])


def _shown(texts: Iterable[str]) -> list[str]:
    return [one_line(text) for text in texts if text]
