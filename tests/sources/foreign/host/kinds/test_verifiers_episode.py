"""Episodes of verifiers as results: the mapping of ends, rewards and errors, on records of their form."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_gym.sources.foreign.host.faults import HostError
from nemo_gym.sources.foreign.host.kinds.verifiers_episode import MOST_NATIVE_BYTES, read_episode


def build_trace(name: str = "agent", **about: Any) -> SimpleNamespace:
    given: dict[str, Any] = {
        "agent": SimpleNamespace(name=name, trainable=about.pop("trainable", True)),
        "ok": True,
        "errors": [],
        "calls": [SimpleNamespace(error=None)],
        "rewards": {"good": SimpleNamespace(score=0.5, weight=2.0)},
        "metrics": {"turns": 1.0},
        "info": {},
        "stop_condition": "agent_completed",
        "is_truncated": False,
        "num_turns": 1,
    }
    return SimpleNamespace(**given | about)


def build_episode(*traces: SimpleNamespace, **about: Any) -> SimpleNamespace:
    given: dict[str, Any] = {
        "env": SimpleNamespace(id="env"),
        "task": SimpleNamespace(key="k"),
        "ok": True,
        "errors": [],
        "is_timeout": False,
        "traces": list(traces),
    }
    return SimpleNamespace(**given | about)


def build_error(kind: str, message: str = "it broke", **about: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"type": kind, "message": message, "status_code": None, "traceback": None} | about
    )


def test_a_result_has_the_weighted_rewards_and_metrics_of_each_seat() -> None:
    referee = build_trace("referee", trainable=False, rewards={}, stop_condition="max_turns")
    loser = {
        "good": SimpleNamespace(score=-1.0, weight=1.0),
        "short": SimpleNamespace(score=1.0, weight=0.25),
    }
    result = read_episode(build_episode(build_trace("one"), build_trace("two", rewards=loser), referee))
    assert result["rewards"] == {"one": 1.0, "two": -0.75}
    assert result["components"]["two"]["short"] == {"value": 1.0, "weight": 0.25}
    assert result["metrics"] == {seat: {"turns": 1.0} for seat in ("one", "two", "referee")}
    assert result["calls_seen"] == {"one": 1, "two": 1, "referee": 1}
    assert result["end"]["reason"] == "final_answer"
    assert result["end"]["detail"].endswith("referee: max_turns")


@pytest.mark.parametrize(
    ("stops", "reason"),
    [
        (["agent_completed"], "final_answer"),
        (["user_closed"], "terminated"),
        (["a_stop_of_the_task"], "terminated"),
        (["max_turns"], "max_steps"),
        (["max_output_tokens"], "max_output_tokens"),
        (["max_input_tokens"], "context_overflow"),
        (["max_total_tokens"], "context_overflow"),
        (["compaction_failed"], "context_overflow"),
        (["agent_timeout"], "timed_out"),
        (["agent_completed", "user_closed"], "terminated"),
        (["agent_completed", "max_turns", "user_closed"], "max_steps"),
    ],
)
def test_an_end_has_its_reason(stops: list[str], reason: str) -> None:
    traces = [build_trace(f"seat{number}", stop_condition=stop) for number, stop in enumerate(stops)]
    assert read_episode(build_episode(*traces))["end"]["reason"] == reason


def test_an_answer_or_a_prompt_that_is_too_long_truncates() -> None:
    cut = read_episode(build_episode(build_trace(is_truncated=True)))
    refused = build_trace(
        calls=[SimpleNamespace(error=None), SimpleNamespace(error=build_error("ProviderError"))]
    )
    assert cut["end"]["reason"] == "max_output_tokens"
    result = read_episode(build_episode(refused))
    assert (result["end"]["reason"], result["calls_seen"]) == ("context_overflow", {"agent": 1})


SCORING = 'Traceback…\n  File "/env.py", line 7, in scored\nValueError: x\n\nThe above exception was the direct cause'


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (build_error("ProviderError", status_code=503), "provider_error", True),
        (build_error("ProviderError", status_code=429), "provider_error", True),
        (build_error("ProviderError", status_code=400), "provider_error", False),
        (
            build_error("TaskError", "task T scoring: ValueError: x", traceback=SCORING),
            "verifier_error",
            False,
        ),
        (build_error("TaskError", traceback='File "t.py", line 1, in record_reward'), "bad_reward", False),
        (build_error("TaskError", "task setup: RuntimeError: x"), "environment_error", True),
        (build_error("HarnessError"), "environment_error", True),
        (build_error("ToolsetError"), "environment_error", True),
        (build_error("SandboxError"), "environment_error", True),
    ],
)
def test_the_error_of_a_run_is_a_failure(error: SimpleNamespace, code: str, retryable: bool) -> None:
    failed = build_trace(ok=False, errors=[error], rewards={})
    late = build_error("EnvError", "Env.run(): RuntimeError: no reply")
    with pytest.raises(HostError, match=f"agent: {error.type}") as caught:
        read_episode(build_episode(failed, ok=False, errors=[late]))
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert ("(/env.py:7)" in caught.value.message) == (error.traceback == SCORING)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (build_error("EnvError", "Env.run(): KeyError: 1"), "environment_error"),
        (build_error("EnvError", "Env.finalize(): KeyError: 1"), "verifier_error"),
        (build_error("TimeoutError", "Env.run() exceeded its 5s deadline"), "timeout"),
    ],
)
def test_the_error_of_an_episode_is_a_failure(error: SimpleNamespace, code: str) -> None:
    late = error.type == "TimeoutError"
    with pytest.raises(HostError) as caught:
        read_episode(build_episode(build_trace(), ok=False, errors=[error], is_timeout=late))
    assert caught.value.code == code


def test_a_model_that_failed_is_told_before_its_consequences() -> None:
    first = build_trace("one", ok=False, errors=[build_error("HarnessError")])
    second = build_trace("two", ok=False, errors=[build_error("ProviderError", status_code=500)])
    with pytest.raises(HostError, match="two: ProviderError"):
        read_episode(build_episode(first, second, ok=False))
    with pytest.raises(HostError, match="without an error"):
        read_episode(build_episode(ok=False))


@pytest.mark.parametrize(
    ("stage", "code"), [("setup", "timeout"), ("finalize", "timeout"), ("scoring", "verifier_error")]
)
def test_a_stage_that_took_too_long_is_never_scored(stage: str, code: str) -> None:
    with pytest.raises(HostError, match=f"the {stage} of agent took too long") as caught:
        read_episode(build_episode(build_trace(stop_condition=f"{stage}_timeout")))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "rewards",
    [
        {},
        {"good": None},
        {"good": SimpleNamespace(score=float("nan"), weight=1.0)},
        {"good": SimpleNamespace(score=1.0, weight=float("inf"))},
    ],
)
def test_a_reward_that_is_missing_or_no_number_is_never_zero(rewards: dict[str, Any]) -> None:
    with pytest.raises(HostError) as caught:
        read_episode(build_episode(build_trace(rewards=rewards)))
    assert caught.value.code == "bad_reward"


@pytest.mark.parametrize("value", [None, float("inf")])
def test_a_metric_that_is_no_number_is_a_failure(value: float | None) -> None:
    with pytest.raises(HostError, match="the metric turns of agent") as caught:
        read_episode(build_episode(build_trace(metrics={"turns": value})))
    assert caught.value.code == "verifier_error"


def test_the_record_is_json_and_small() -> None:
    odd = read_episode(build_episode(build_trace(info={"at": SimpleNamespace(), "nan": float("nan")})))
    json.dumps(odd["native"], allow_nan=False)
    large = read_episode(build_episode(build_trace(info={"text": "x" * MOST_NATIVE_BYTES})))
    assert large["native"]["traces"][0]["info"] is None
