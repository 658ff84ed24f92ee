"""Probes of an engine with small requests."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.engines.tokens.probe import (
    Findings,
    LogprobsMode,
    build_findings,
    check_trainable,
    logprobs_mode,
)
from nemo_gym.failures import EngineError
from nemo_gym.tokens.reasons import MaskReason
from tests.tokens.conversations import Ground

WARM = {"a": -0.5, "b": -1.5, "c": -3.5}


@pytest.mark.parametrize(
    ("cool", "warm", "mode"),
    [
        (WARM, WARM, LogprobsMode.RAW),
        ({token: logprob + 5e-5 for token, logprob in WARM.items()}, WARM, LogprobsMode.RAW),
        ({"a": -0.2, "b": -2.2, "c": -6.2}, WARM, LogprobsMode.PROCESSED),
        ({"a": -0.2, "b": -2.2, "d": -6.2}, WARM, LogprobsMode.PROCESSED),
        ({"a": -0.2}, WARM, None),
        ({}, {}, None),
        ({"a": -0.7, "b": -0.7}, {"a": -0.7, "b": -0.7}, None),
        ({"a": 0.0, "b": -9999.0}, {"a": 0.0, "b": -9999.0}, None),
    ],
)
def test_the_mode_shows_in_how_candidates_spread(
    cool: dict[str, float], warm: dict[str, float], mode: LogprobsMode | None
) -> None:
    assert logprobs_mode(cool, warm) is mode


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"content": "x"}, None),
        ({"content": "x", "reasoning": None}, "reasoning"),
        ({"content": None, "reasoning_content": "y"}, "reasoning_content"),
        ({"content": "<think>y", "reasoning": None}, "inline"),
    ],
)
def test_where_reasoning_is(message: dict[str, Any], field: str | None) -> None:
    findings = build_findings({"choices": [{"message": message}]}, [])
    assert findings == Findings(MaskReason.MISSING_TOKEN_IDS, None, field)


@pytest.mark.parametrize("mode", ["raw", "processed"])
async def test_the_preflight_of_a_training_server_reports_its_findings(mode: str) -> None:
    found = (await Ground(engine={"logprobs_mode": mode, "think": True}).server.preflight())["training"]
    assert found == {
        "probed": True,
        "trainable": True,
        "masked": None,
        "logprobs_mode": mode,
        "reasoning_field": "reasoning",
        "token_input": "none",
        "context_length": 65_536,
    }


@pytest.mark.parametrize(
    ("engine", "server", "says"),
    [
        ({"faults": [{"do": "tokens_missing"}]}, {}, "missing token ids"),
        ({"faults": [{"do": "logprob_nan"}]}, {}, "invalid logprobs"),
        (
            {"logprobs_mode": "raw"},
            {"sampling_overrides": {"temperature": 0.8}},
            "before it applies temperature",
        ),
        ({"logprobs_mode": "raw"}, {"extra_body": {"top_p": 0.9}}, "before it applies top_p"),
    ],
)
async def test_an_engine_that_training_cannot_live_with_is_refused_with_the_remedy(
    engine: dict[str, Any], server: dict[str, Any], says: str
) -> None:
    ground = Ground(engine=engine, **server)
    with pytest.raises(EngineError) as raised:
        await ground.server.preflight()
    failure = raised.value.failure
    assert failure.code == "untrainable_engine"
    assert says in failure.message
    assert "set return_token_id_information to false" in (failure.remedy or "")


async def test_pinned_sampling_is_fine_where_logprobs_are_those_of_the_sampling() -> None:
    ground = Ground(engine={"logprobs_mode": "processed"}, sampling_overrides={"temperature": 0.8})
    assert (await ground.server.preflight())["training"]["trainable"]


async def test_an_engine_that_lists_no_candidates_is_taken_as_it_is() -> None:
    ground = Ground(engine={"faults": [{"do": "lookalike_1", "match": '"top_logprobs":5'}]})
    found = (await ground.server.preflight())["training"]
    assert (found["trainable"], found["logprobs_mode"]) == (True, None)


async def test_an_engine_that_is_busy_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemo_gym.engines.tokens.probe.PROBE_S", 0.02)
    ground = Ground(engine={"latency_s": 5})
    assert (await ground.server.preflight())["training"] == {"probed": False}


def test_a_trainable_engine_passes() -> None:
    check_trainable(Findings(None, LogprobsMode.RAW), {"temperature": 1.0}, "http://engine")
    check_trainable(Findings(None, None), {"temperature": 0.5}, "http://engine")
