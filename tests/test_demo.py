"""The demo says OK only where it has shown what it promises (the whole of it runs in CI, as ``make demo``)."""

from __future__ import annotations

import pytest

from omnicfg.demo import counter, main, verdict

METRICS = """\
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="tiny-omni"} 256.0
vllm:prefix_cache_hits_total{engine="1",model_name="tiny-omni"} 3.2e+01
vllm:prefix_cache_hits_created{engine="0",model_name="tiny-omni"} 1.79e+09
vllm:external_prefix_cache_hits_total{engine="0"} 7.0
plain_total 5.0
"""


@pytest.mark.parametrize(
    ("name", "value"), [("vllm:prefix_cache_hits_total", 288), ("plain_total", 5), ("vllm:no_such_total", 0)]
)
def test_a_counter_is_summed_over_its_labels(name: str, value: int) -> None:
    assert counter(METRICS, name) == value


def test_a_hit_speech_and_a_clean_stop_are_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(320, 320, 1.9, 0, []) == 0
    assert capsys.readouterr().out == "OK\n"


@pytest.mark.parametrize(
    ("cached", "hits", "speech_s", "status", "leftovers", "reason"),
    [
        (0, 320, 1.9, 0, [], "no cached tokens"),
        (320, 0, 1.9, 0, [], "no prefix-cache hit"),
        (320, 320, 0.0, 0, [], "no speech was heard"),
        (320, 320, 1.9, 2, [], "stopped with status 2"),
        (320, 320, 1.9, None, [], "stopped with status None"),
        (320, 320, 1.9, 0, [4711], "processes are left: [4711]"),
    ],
)
def test_anything_else_is_a_failure_that_says_why(
    cached: int,
    hits: int,
    speech_s: float,
    status: int | None,
    leftovers: list[int],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verdict(cached, hits, speech_s, status, leftovers) == 1
    assert reason in capsys.readouterr().out


def test_help_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: python -m omnicfg.demo")
