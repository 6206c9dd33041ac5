"""The public API, and what it must not cost."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import omnicfg

HEAVY = (
    "argparse",
    "jsonschema",
    "omegaconf",
    "pydantic",
    "rich",
    "ruamel.yaml",
    "torch",
    "transformers",
    "typer",
    "vllm",
)


def imported_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has imported after the code."""
    program = f"import sys\n{code}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_the_public_names() -> None:
    assert omnicfg.__all__ == [
        "Change",
        "Diagnostic",
        "OmnicfgError",
        "Plan",
        "ResolveError",
        "ServeError",
        "Severity",
        "UsageError",
        "__version__",
        "confined",
        "diff",
        "resolve",
        "validate",
    ]
    assert all(getattr(omnicfg, name) is not None for name in omnicfg.__all__)


def test_the_public_names_can_be_listed_before_any_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import omnicfg; print(*dir(omnicfg))"], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == omnicfg.__all__


def test_a_name_that_is_not_public() -> None:
    with pytest.raises(AttributeError, match="module 'omnicfg' has no attribute 'resolv'"):
        omnicfg.resolv  # noqa: B018


def test_signatures() -> None:
    assert str(inspect.signature(omnicfg.resolve)).replace("'", "") == (
        "(profile: ProfileName, *, platform: str = cuda, pipeline: str | None = None, "
        "overlays: ProfileName | Iterable[ProfileName] = (), "
        "overrides: Mapping[str, Any] | Iterable[str] | None = None) -> Plan"
    )
    assert list(inspect.signature(omnicfg.validate).parameters)[:5] == [
        "profiles",
        "platform",
        "pipeline",
        "overlays",
        "overrides",
    ]


def test_a_plan_as_plain_data() -> None:
    data = omnicfg.resolve("minicpmo_4_5_turn", platform="npu").to_dict()
    assert list(data) == ["profile", "platform", "pipeline", "deploy", "stages"]
    assert data["stages"][0]["engine_args"]["enable_prefix_caching"] is False
    assert omnicfg.resolve("minicpmo_4_5_turn").to_dict()["stages"][0]["engine_args"]["enable_prefix_caching"] is True


def test_importing_the_package_costs_nothing() -> None:
    loaded = imported_by("import omnicfg")
    assert {name for name in loaded if name.startswith("omnicfg")} == {"omnicfg"}


def test_resolving_imports_nothing_heavy() -> None:
    loaded = imported_by("import omnicfg; omnicfg.resolve('minicpmo_4_5_turn', platform='npu')")
    assert loaded.isdisjoint(set(HEAVY) - {"ruamel.yaml"})


def test_validating_imports_nothing_heavy() -> None:
    loaded = imported_by("import omnicfg; omnicfg.validate('qwen3_omni_moe')")
    assert loaded.isdisjoint(set(HEAVY) - {"ruamel.yaml"})


def test_comparing_imports_nothing_heavy() -> None:
    loaded = imported_by("import omnicfg; omnicfg.diff(*map(omnicfg.resolve, ('qwen3_tts', 'qwen3_tts_v1')))")
    assert loaded.isdisjoint(set(HEAVY) - {"ruamel.yaml"})


def test_one_overlay_and_one_override_need_no_list(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("stages: [{stage_id: 0, max_num_seqs: 3}]\n", encoding="utf-8")
    for one in (overlay, str(overlay)):
        plan = omnicfg.resolve("tiny-omni", overlays=one, overrides="stages.0.max_model_len=512")
        stage = plan.stage(0)
        assert stage is not None
        assert (stage.arg("max_num_seqs"), stage.arg("max_model_len")) == (3, 512)
        assert omnicfg.validate("tiny-omni", overlays=one) == []
