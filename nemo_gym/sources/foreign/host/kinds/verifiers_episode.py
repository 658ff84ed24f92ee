"""An episode of verifiers as the result of an attempt: rewards, ends, and the failure that makes it neither."""

from __future__ import annotations

import json
import re
from typing import Any

from ..faults import HostError, check_reward

MOST_NATIVE_BYTES = 1 << 20
_ENDS = {
    "agent_completed": "final_answer",
    "user_closed": "terminated",
    "max_turns": "max_steps",
    "max_output_tokens": "max_output_tokens",
    "max_input_tokens": "context_overflow",
    "max_total_tokens": "context_overflow",
    "compaction_failed": "context_overflow",
    "agent_timeout": "timed_out",
}
"""The reason of each way to stop that is not a `@vf.stop` of the task."""
_CUT = ("timed_out", "context_overflow", "max_output_tokens", "max_steps")
_WAITED = ("setup_timeout", "finalize_timeout", "scoring_timeout")
_RETRYABLE = (408, 409, 429)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_CHAINED = "The above exception was the direct cause"


def read_episode(episode: Any) -> dict[str, Any]:
    """Return the result of an episode, whose runs have the names of their seats.

    Raises `HostError` if it failed, or if a reward is missing or no number. A seat that does not train may have none.
    """
    raise_failure(episode)
    played = {trace.agent.name: trace for trace in episode.traces}
    scored = {seat: trace for seat, trace in played.items() if trace.agent.trainable or trace.rewards}
    return {
        "rewards": {seat: read_reward(trace, seat) for seat, trace in scored.items()},
        "components": {
            seat: {name: {"value": each.score, "weight": each.weight} for name, each in trace.rewards.items()}
            for seat, trace in scored.items()
        },
        "metrics": {seat: read_metrics(trace, seat) for seat, trace in played.items()},
        "end": read_end(episode.traces),
        "calls_seen": {seat: count_calls(trace) for seat, trace in played.items()},
        "native": describe_episode(episode),
    }


def raise_failure(episode: Any) -> None:
    """Raise `HostError` for the first cause of a failed episode: a model, a scorer, or anything else of it."""
    failed = [(each.agent.name, error) for each in episode.traces if not each.ok for error in each.errors]
    errors = [*failed, *(("the environment", error) for error in episode.errors)]
    if not episode.ok:
        errors.sort(key=lambda each: each[1].type != "ProviderError")
        if not errors:
            raise HostError("environment_error", "the episode failed without an error", retryable=True)
        raise build_error(*errors[0], is_timeout=episode.is_timeout)
    for trace in episode.traces:
        if trace.stop_condition in _WAITED:
            stage = trace.stop_condition.removesuffix("_timeout")
            code = "verifier_error" if stage == "scoring" else "timeout"
            raise HostError(code, f"the {stage} of {trace.agent.name} took too long", retryable=True)


def build_error(where: str, error: Any, *, is_timeout: bool) -> HostError:
    told = f"{where}: {error.type}: {error.message}{find_place(error.traceback)}"
    if error.type == "ProviderError":
        status = error.status_code or 500
        return HostError("provider_error", told, retryable=status >= 500 or status in _RETRYABLE)
    if is_timeout and error.type == "TimeoutError":
        return HostError("timeout", told, retryable=True)
    if error.type == "TaskError" and "record_reward" in (error.traceback or ""):
        return HostError("bad_reward", told)
    is_scorer = error.type == "TaskError" and "scoring:" in error.message
    if is_scorer or (error.type == "EnvError" and ".finalize()" in error.message):
        return HostError("verifier_error", told)
    return HostError("environment_error", told, retryable=True)


def find_place(trace: str | None) -> str:
    """Return where the first exception of a chain was raised."""
    frames = _FRAME.findall((trace or "").split(_CHAINED)[0])
    return f" ({frames[-1][0]}:{frames[-1][1]})" if frames else ""


def read_reward(trace: Any, seat: str) -> float:
    """Return the reward of a run, the weighted sum of its parts. Raises `HostError` if there is none, or no number."""
    if not trace.rewards:
        raise HostError("bad_reward", f"{seat} ended without a reward")
    parts = []
    for name, reward in trace.rewards.items():
        score = check_reward(None if reward is None else reward.score, f"{seat}, {name},")
        parts.append(score * check_reward(reward.weight, f"{seat}, the weight of {name},"))
    return sum(parts)


def read_metrics(trace: Any, seat: str) -> dict[str, float]:
    """Return the metrics of a run. Raises `HostError` for one that is no finite number."""
    found = {}
    for name, value in trace.metrics.items():
        try:
            found[name] = check_reward(value, name)
        except HostError as error:
            told = f"the metric {name} of {seat} is {value}, and no finite number"
            raise HostError("verifier_error", told) from error
    return found


def read_end(traces: list[Any]) -> dict[str, str]:
    """Return how an episode ended: cut short if one run of a trained seat was, else as they all did."""
    trained = [each for each in traces if each.agent.trainable] or traces
    reasons = [read_reason(each) for each in trained]
    cut = [reason for reason in _CUT if reason in reasons]
    ended = reasons[0] if len(set(reasons)) == 1 else "terminated"
    detail = ", ".join(f"{each.agent.name}: {each.stop_condition}" for each in traces)
    return {"reason": cut[0] if cut else ended, "detail": detail}


def read_reason(trace: Any) -> str:
    reason = _ENDS.get(trace.stop_condition, "terminated")
    if reason in _CUT:
        return reason
    if trace.calls and trace.calls[-1].error is not None:  # the harness took its refusal for the end
        return "context_overflow"
    return "max_output_tokens" if trace.is_truncated else reason


def count_calls(trace: Any) -> int:
    """Return the number of a run's model calls that were answered."""
    return sum(each.error is None for each in trace.calls)


def describe_episode(episode: Any) -> dict[str, Any]:
    """Return their record of an episode without its messages, and without `info` if this is too large."""
    kept = [describe_trace(each) for each in episode.traces]
    if len(json.dumps(kept)) > MOST_NATIVE_BYTES:
        kept = [{**each, "info": None} for each in kept]
    return {"env": episode.env.id, "task": episode.task.key, "traces": kept}


def describe_trace(trace: Any) -> dict[str, Any]:
    about = {
        "agent": trace.agent.name,
        "trainable": trace.agent.trainable,
        "stop_condition": trace.stop_condition,
        "turns": trace.num_turns,
        "rewards": {
            name: None if each is None else {"score": each.score, "weight": each.weight}
            for name, each in trace.rewards.items()
        },
        "metrics": dict(trace.metrics),
        "info": trace.info,
    }
    described: dict[str, Any] = json.loads(json.dumps(about, default=str), parse_constant=str)
    return described
