"""The flags as data, and the pages on what is found in commands."""

from __future__ import annotations

from pathlib import Path

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.command_line.findings import KINDS
from omnicfg.command_line.flags import catalog
from omnicfg.command_line.parse import parse
from omnicfg.command_line.shell import Word
from omnicfg.diagnostics import RULES_URL, Diagnostic, Severity
from omnicfg.tree import Mark

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


def test_a_key_that_a_config_does_not_have_is_told_with_the_one_that_was_meant() -> None:
    words = ("m", "--omni", "--compilation-config.cudagraph_mod", "NONE", "--kv-transfer-config", '{"zzz": 1}')
    found = parse([Word(word, Mark("--command", 1, 1 + at)) for at, word in enumerate(words)]).findings
    said = {each.message.partition("`")[2].partition("`")[0]: each for each in found}
    assert list(said) == ["--kv-transfer-config", "--compilation-config"]
    nested, other = said["--compilation-config"], said["--kv-transfer-config"]
    wanted = "it has to be JSON without `cudagraph_mod`, which this flag does not take"
    assert nested.message == f'`--compilation-config` is `{{"cudagraph_mod": "NONE"}}`; {wanted}'
    assert (nested.column, nested.help) == (3, "Did you mean `cudagraph_mode`?")
    assert (other.column, other.help) == (6, None)


def test_every_finding_leads_to_a_page() -> None:
    codes = [kind.code for kind in KINDS.values()]
    assert len(set(codes)) == len(codes)
    for code in codes:
        url = Diagnostic(code, "name", Severity.ERROR, "message").url
        assert (DOCS / url.removeprefix(RULES_URL)).is_file()
