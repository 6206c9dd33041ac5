"""The flags as data, and the pages on what is found in commands."""

from __future__ import annotations

from pathlib import Path

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.command_line.findings import KINDS
from omnicfg.command_line.flags import catalog
from omnicfg.diagnostics import RULES_URL, Diagnostic, Severity

DOCS = Path(__file__).parents[2] / "docs" / "rules"


def test_a_flag_reaches_only_stages_that_own_what_it_sets() -> None:
    owners = deploy_schema().owners
    for flag in catalog().by_option.values():
        for kind, args in flag.stages.items():
            assert set(args) <= owners[kind], flag.dest


def test_who_takes_a_flag() -> None:
    reach = {flag.dest: flag.reach for flag in catalog().by_option.values()}
    assert set(reach.values()) == {"stages", "profile", "orchestrator", "server", "nothing"}
    assert {dest for dest, taken in reach.items() if taken == "nothing"} == {
        "batch_timeout",
        "log_file",
        "replica_id",
        "shm_threshold_bytes",
    }
    assert (reach["port"], reach["deploy_config"], reach["init_timeout"]) == ("server", "profile", "orchestrator")
    assert reach["gpu_memory_utilization"] == "stages"


def test_every_finding_leads_to_a_page() -> None:
    codes = [kind.code for kind in KINDS.values()]
    assert len(set(codes)) == len(codes)
    for code in codes:
        url = Diagnostic(code, "name", Severity.ERROR, "message").url
        assert (DOCS / url.removeprefix(RULES_URL)).is_file()
