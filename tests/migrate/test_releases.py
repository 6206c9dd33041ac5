"""The table of `docs/migrate.md`: what the stage configs of old releases say, beside the shipped profiles of today.

``--update-snapshots`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import omnicfg
from omnicfg.migrate.run import migrate
from omnicfg.migrate.write import write_profile
from omnicfg.plan import Plan
from omnicfg.report.yaml import inline
from omnicfg.tree import LayerKind, Mapping, plain
from tests.migrate.conftest import Corpus

PAGE: Final = Path(__file__).parents[2] / "docs" / "migrate.md"
BEGIN, END = "<!-- begin releases -->\n", "<!-- end releases -->\n"
MODELS: Final = {
    "Qwen3-Omni, in chunks": (
        "qwen3_omni_moe",
        {"0.16.0": "qwen3_omni_moe_async_chunk", "0.18.0": "qwen3_omni_moe_async_chunk"},
    ),
    "Qwen2.5-Omni": ("qwen2_5_omni", {"0.16.0": "qwen2_5_omni", "0.18.0": "qwen2_5_omni"}),
    "Qwen3-TTS": ("qwen3_tts", {"0.16.0": "qwen3_tts", "0.18.0": "qwen3_tts", "0.20.0": "qwen3_tts_uniproc"}),
}
"""Title → the shipped profile, and the file of each release."""

_FROM_FILES: Final = (LayerKind.BASE, LayerKind.PROFILE, LayerKind.PLATFORM)
_DERIVED: Final = ("async_chunk", "session_mode", "use_v2_model_runner")


def test_the_table_of_the_page_is_current(corpus: Corpus, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = "\n".join(_section(title, *MODELS[title], corpus, tmp_path) for title in MODELS)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    current, _, after = rest.partition(END)
    if request.config.getoption("--update-snapshots"):
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
        return
    assert current == f"\n{text}\n"


def _section(title: str, shipped: str, files: dict[str, str], corpus: Corpus, folder: Path) -> str:
    columns = {version: _settings(_migrated(corpus[version][name], folder)) for version, name in files.items()}
    columns[f"`{shipped}` today"] = _settings(omnicfg.resolve(shipped))
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    lines = [f"**{title}**", "", f"| setting | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for key in sorted(keys):
        cells = [f"`{inline(column[key])}`" if key in column else "-" for column in columns.values()]
        if len(set(cells)) > 1:
            lines.append(f"| `{key}` | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _migrated(old: Path, folder: Path) -> Plan:
    done = migrate(old, target=folder / "flat.yaml", flat=True)
    write_profile(done, folder / "flat.yaml")
    return omnicfg.resolve(folder / "flat.yaml")


def _settings(plan: Plan) -> dict[str, Any]:
    """What files say in a plan: the values of the pipeline as a whole, and those of each stage."""
    found = {name: plan.deploy.value(name) for name in ("async_chunk", "model_runner", "session_mode")}
    for name, connector in (plan.deploy.value("connectors") or {}).items():
        found |= {f"connectors.{name}.{key}": value for key, value in connector.get("extra", {}).items()}
    for stage in plan.stages:
        for part in (stage.engine_args, stage.runtime, stage.extras):
            found |= {f"{stage.stage_id}: {key}": value for key, value in _said(part)}
    return found


def _said(part: Mapping) -> Iterator[tuple[str, Any]]:
    for key, node in part.items.items():
        if key == "default_sampling_params" and isinstance(node, Mapping):
            yield from ((f"{key}.{name}", value) for name, value in _said(node))
        elif node.layer.kind in _FROM_FILES and key not in _DERIVED:
            yield str(key), plain(node)
