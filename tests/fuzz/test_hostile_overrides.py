"""Overrides that make no sense: each is refused, or found by a rule, at its own place."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.diagnostics import Severity
from omnicfg.errors import OmnicfgError, ResolveError
from tests.fuzz.harness import time_limit
from tests.fuzz.mutate import NASTY_VALUES
from tests.fuzz.restructure import KEYS, NASTY

PROFILE = "qwen3_omni_moe"

REFUSED = {
    # override: (name of the refusal, line, column)
    "": ("bad-override", 0, 0),
    "async_chunk": ("bad-override", 0, 0),
    "=": ("bad-override", 1, 2),
    "=1": ("bad-override", 1, 2),
    "..=1": ("bad-override", 1, 4),
    "async_chnk=1": ("bad-override", 1, 12),
    "stages=[]": ("bad-override", 1, 8),
    "stages.0=1": ("bad-override", 1, 10),
    "stages.0.=1": ("bad-override", 1, 11),
    "stages.thinker.devices=0": ("bad-override", 1, 24),
    "stages.-1.devices=0": ("bad-override", 1, 19),
    "stages.7.devices=0": ("bad-override", 1, 18),
    "stages.99999999999999999999.devices=0": ("bad-override", 1, 37),
    "stages.0.max_num_seq=8": ("bad-override", 1, 22),
    "stages.0.stage_id=8": ("bad-override", 1, 19),
    "stages.0.engine_extras=8": ("bad-override", 1, 24),
    "platforms.npu.model_runner=v2": ("bad-override", 1, 28),
    "base_config=x.yaml": ("bad-override", 1, 13),
    "stages.0." + "a." * 20_000 + "b=1": ("bad-override", 1, 40_012),
    "async_chunk" + ".a" * 20_000 + "=1": ("bad-override", 1, 40_013),
    "stages.0.max_num_seqs=" + "9" * 5000: ("bad-override", 1, 23),
    "stages.0.max_num_seqs=0x" + "f" * 500_000: ("bad-override", 1, 23),
    "stages.0.max_num_seqs=[1": ("yaml-syntax", 1, 25),
    "stages.0.max_num_seqs='8": ("yaml-syntax", 1, 23),
    "stages.0.max_num_seqs='8' '9'": ("yaml-syntax", 1, 27),
    "stages.0.env={a: &a [*a]}": ("unsupported-yaml", 1, 22),
    "stages.0.env=" + "[" * 50_000: ("too-large", 1, 78),
    "stages.0.dtype='\0'": ("yaml-syntax", 1, 17),
    "stages.0.dtype='\udc80'": ("bad-override", 1, 17),
    "duplex_session=5": ("wrong-container", 1, 16),
    "duplex_session.max_sessions=-1": ("bad-duplex-session", 1, 29),
    "duplex_session.max_session=1": ("bad-duplex-session", 1, 28),
    "model_runner=v3": ("bad-model-runner", 1, 14),
    "model_runner={}": ("bad-model-runner", 1, 14),
    "pipeline=qwen3_omni": ("unknown-pipeline", 1, 10),
    "pipeline={a: 1}": ("unknown-pipeline", 1, 10),
    "pipeline=": ("unknown-pipeline", 1, 10),
    "active_stream_window=many": ("bad-value", 1, 22),
    "stages.0.num_replicas=many": ("bad-value", 1, 23),
    "stages.0.default_sampling_params=5": ("wrong-container", 1, 34),
    "stages.0.input_connectors=5": ("wrong-container", 1, 27),
    "stages.0.use_v2_model_runner=true": ("reserved-engine-arg", 1, 30),
}


@pytest.mark.parametrize(("text", "told"), REFUSED.items(), ids=[text[:50] for text in REFUSED])
def test_an_override_that_is_refused(text: str, told: tuple[str, int, int]) -> None:
    with time_limit(), pytest.raises(ResolveError) as refused:
        omnicfg.resolve(PROFILE, overrides=[text])
    (reason,) = refused.value.diagnostics
    assert (reason.name, reason.line, reason.column) == told
    assert reason.path.startswith("--set")
    assert len(reason.path) < 150


FOUND = {
    # override: (rule, line, column)
    "async_chunk=": ("wrong-type", 1, 13),
    "async_chunk='false'": ("quoted-scalar", 1, 13),
    "enable_prefix_caching=maybe": ("wrong-type", 1, 23),
    "session_mode=duplx": ("session-mode-not-served", 1, 14),
    "connectors=5": ("wrong-type", 1, 12),
    "edges=5": ("wrong-type", 1, 7),
    "stages.0.max_num_seqs=many": ("wrong-type", 1, 23),
    'stages.0.max_num_seqs="8"': ("quoted-scalar", 1, 23),
    "stages.0.max_num_seqs=0": ("out-of-range", 1, 23),
    "stages.0.devices=0": ("wrong-type", 1, 18),
    "stages.0.devices='0,0'": ("device-count", 1, 18),
    "stages.0.gpu_memory_utilization=1.5": ("out-of-range", 1, 33),
    "stages.0.default_sampling_params.stop_token_ids=5": ("wrong-type", 1, 49),
    "stages.0.env=5": ("wrong-type", 1, 14),
}


@pytest.mark.parametrize(("text", "told"), FOUND.items(), ids=list(FOUND))
def test_an_override_that_a_rule_finds(text: str, told: tuple[str, int, int]) -> None:
    found = omnicfg.validate(PROFILE, overrides=[text])
    assert told in [(one.name, one.line, one.column) for one in found if one.path == f"--set {text}"]


def _cycle() -> dict[str, Any]:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    return cycle


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({5: 1}, id="a number as key"),
        pytest.param({None: 1}, id="none as key"),
        pytest.param({"async_chunk": Path("x")}, id="a path"),
        pytest.param({"async_chunk": b"x"}, id="bytes"),
        pytest.param({"async_chunk": {1, 2}}, id="a set"),
        pytest.param({"async_chunk": object()}, id="an object"),
        pytest.param({"async_chunk": {object(): 1}}, id="an object as key of a value"),
        pytest.param({"async_chunk": 10**5000}, id="a number that cannot be printed"),
        pytest.param({"stages.0.env": _cycle()}, id="a mapping that holds itself"),
        pytest.param([5], id="a number"),
        pytest.param([None], id="none"),
        pytest.param([b"async_chunk=1"], id="bytes instead of text"),
    ],
)
def test_what_no_profile_could_hold_is_refused(overrides: Any) -> None:
    with pytest.raises(ResolveError) as refused:
        omnicfg.resolve(PROFILE, overrides=overrides)
    assert refused.value.diagnostics[0].name == "bad-override"


PATHS = (
    "async_chunk", "session_mode", "model_runner", "connectors", "connectors.a", "edges", "duplex_session",
    "duplex_session.max_sessions", "active_stream_window", "dtype", "pipeline", "enable_prefix_caching", "stages",
    "stages.0", "stages.0.devices", "stages.1.num_replicas", "stages.0.env", "stages.0.env.A",
    "stages.2.engine_extras.dtype", "stages.0.runtime.devices", "stages.0.default_sampling_params",
    "stages.0.default_sampling_params.stop_token_ids", "stages.1.input_connectors",
    "stages.1.input_connectors.from_stage_0", "stages.0.async_chunk", "stages.0.async_scheduling",
    "stages.0.max_num_seqs", "stages.0.max_num_batched_tokens", "stages.0.gpu_memory_utilization",
    "stages.0.parallel_config", "stages.0.tensor_parallel_size", "stages.9.devices", "stages.0.compilation_config",
)  # fmt: skip


def test_hundreds_of_overrides_at_random() -> None:
    rng = random.Random(0)
    for number in range(600):
        path = rng.choice(PATHS) if rng.random() < 0.9 else str(rng.choice(KEYS))
        overrides: Any = (
            [f"{path}={rng.choice(NASTY_VALUES)}"] if rng.random() < 0.5 else {path: rng.choice(NASTY), "dtype": None}
        )
        story = f"number {number}: {str(overrides)[:200]}"
        with time_limit():
            try:
                json.dumps(omnicfg.resolve(PROFILE, overrides=overrides).to_dict())
                refused = False
            except OmnicfgError:
                refused = True
            except Exception as error:  # noqa: BLE001  # that is what the test is about
                pytest.fail(f"{story}: {type(error).__name__}: {error}")
            if number % 3 == 0:
                _check(overrides, refused, story)


def _check(overrides: Any, refused: bool, story: str) -> None:
    try:
        found = omnicfg.validate(PROFILE, platform="cuda", overrides=overrides)
    except ResolveError as error:  # the text itself cannot be read: a request that makes no sense
        assert refused, f"{story}: {error}"  # noqa: PT017
    else:
        assert not refused or any(one.severity is Severity.ERROR for one in found), story
