"""OC504: between the bundled engine's stages there is one host, and a plan that says otherwise is told so."""

from __future__ import annotations

import pytest

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.payload import ONE_HOST
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

PROFILE = """\
pipeline: {pipeline}
connectors:
  link: {{name: {kind}}}
stages:
  - stage_id: 1
    input_connectors: {{from_stage_0: link}}
  - stage_id: 2
    input_connectors: {{from_stage_1: link}}
"""
SEVERAL_HOSTS = sorted(set(deploy_schema().connector_classes) - {ONE_HOST})


@pytest.mark.parametrize("kind", SEVERAL_HOSTS)
def test_each_reference_is_pointed_at(kind: str, profile_file: WriteProfile) -> None:
    profile = profile_file(PROFILE.format(pipeline="qwen3_omni_moe", kind=kind))
    found = findings(profile, "OC504", engine="bundled")
    assert [(one.line, one.stage_id, one.severity) for one in found] == [
        (6, 1, Severity.WARNING),
        (8, 2, Severity.WARNING),
    ]
    assert found[0].message == (
        f"stage 1 (talker) is joined by `link`, a {kind}; the bundled engine hands over in the memory of one host "
        f"({ONE_HOST})"
    )
    assert found[0].help == f"Name a `{ONE_HOST}`, or serve with vLLM-Omni (`--engine vllm-omni`)."


def test_one_host_is_what_it_has(profile_file: WriteProfile) -> None:
    profile = profile_file(PROFILE.format(pipeline="qwen3_omni_moe", kind=ONE_HOST))
    assert told(profile, "OC504", engine="bundled") == []


def test_vllm_omni_has_them_all(profile_file: WriteProfile) -> None:
    profile = profile_file(PROFILE.format(pipeline="qwen3_omni_moe", kind=SEVERAL_HOSTS[0]))
    assert told(profile, "OC504") == []


def test_stages_that_the_engine_never_joins_are_left_alone(profile_file: WriteProfile) -> None:
    profile = profile_file(PROFILE.format(pipeline="cosyvoice3", kind=SEVERAL_HOSTS[0]))
    assert told(profile, "OC504", engine="bundled") == []
