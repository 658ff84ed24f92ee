"""The calls of rollouts in a form that all dialects share, for observability and evaluation.

Training reads token records instead, which are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from nemo_gym.config.types import ModelServerRef
from nemo_gym.engines.record.store import CaptureStore
from nemo_gym.responses.messages_request import parse_tool_input

_SUMS = ("tokens_in", "tokens_out", "tokens_reasoning", "tokens_total", "cached_tokens", "latency_total_ms")


class ModelCallRecord(BaseModel):
    """One exchange, with its token counts, tool calls and reasoning in a form that all dialects share."""

    model_call_id: str | None = None
    response_id: str | None = None
    client_session_id: str | None = None
    call_index: int
    model_ref: ModelServerRef | None = None
    model: str | None = None
    dialect: str | None = None
    status_code: int | None = None
    response_status: str | None = None
    """The `status` of a Responses object."""
    finish_reason: str | None = None
    upstream_attempted: bool | None = None
    response_source: Literal["upstream", "local"] | None = None
    upstream_status_code: int | None = None
    local_response_reason: str | None = None
    started_at: float | None = None
    """Seconds since the epoch."""
    completed_at: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_total: int | None = None
    request: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    request_raw: str | None = None
    """The request, if it is not a JSON object."""
    response_raw: str | None = None
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    """`{name, arguments, call_id}` of each."""
    reasoning_content: str | None = None
    cache_hit: bool | None = None
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None
    error_category: str | None = None
    latency_total_ms: float | None = None
    latency_ttft_ms: float | None = None


_COPIED = frozenset(ModelCallRecord.model_fields) - {
    "call_index",
    "request",
    "response",
    "response_id",
    "latency_total_ms",
}


def build_model_call_record(exchange: Mapping[str, Any], *, call_index: int) -> ModelCallRecord:
    """Return the record of an exchange."""
    request, response = _object(exchange.get("request")), _object(exchange.get("response"))
    answer = response or {}
    return ModelCallRecord.model_validate(
        {
            "call_index": call_index,
            "request": request,
            "response": response,
            "response_id": exchange.get("response_id") or answer.get("id"),
            "model": answer.get("model") or (request or {}).get("model"),
            "response_status": answer.get("status"),
            "finish_reason": _finish_reason(answer),
            "tool_calls": _tool_calls(answer),
            "reasoning_content": _read_reasoning(answer),
            "latency_total_ms": exchange.get("latency_ms"),
            **extract_token_stats(answer.get("usage")),
            **{key: exchange[key] for key in _COPIED & exchange.keys()},
        }
    )


def read_model_call_records(store: CaptureStore, rollout_id: str) -> list[ModelCallRecord]:
    """Return the records of a rollout's calls, in order. Raises `ValueError` for a damaged line."""
    exchanges = store.read(rollout_id)
    return [build_model_call_record(each, call_index=index) for index, each in enumerate(exchanges)]


def read_available_model_call_records(
    store: CaptureStore, rollout_id: str
) -> tuple[list[ModelCallRecord], int]:
    """Return the records of the valid lines, and the number of damaged lines."""
    exchanges, damaged = store.read_available(rollout_id)
    return [build_model_call_record(each, call_index=index) for index, each in exchanges], damaged


def aggregate_model_call_records(calls: Sequence[ModelCallRecord]) -> dict[str, Any]:
    """Return the sums of token counts and latencies, None where no call has the value, and the number of calls."""
    values = {name: [value for call in calls if (value := getattr(call, name)) is not None] for name in _SUMS}
    return {
        **{name: sum(known) if known else None for name, known in values.items()},
        "num_calls": len(calls),
    }


def aggregate_model_call_metrics(store: CaptureStore, rollout_id: str) -> dict[str, Any]:
    """Return the sums for a rollout."""
    return aggregate_model_call_records(read_model_call_records(store, rollout_id))


def extract_token_stats(usage: object) -> dict[str, Any]:
    """Return the token counts of a `usage` of any dialect; None for counts that it lacks.

    Anthropic's `input_tokens` leave out the cached ones, which `tokens_in` includes.
    """
    counts = _object(usage) or {}
    created = _count(counts, "cache_creation_input_tokens")
    read = _count(counts, "cache_read_input_tokens")
    given, generated = (
        _count(counts, "input_tokens", "prompt_tokens"),
        _count(counts, "output_tokens", "completion_tokens"),
    )
    if given is not None:
        given += (created or 0) + (read or 0)
    before = _object(counts.get("input_tokens_details") or counts.get("prompt_tokens_details")) or {}
    after = _object(counts.get("output_tokens_details") or counts.get("completion_tokens_details")) or {}
    cached = read if read is not None else _count(before, "cached_tokens")
    total = _count(counts, "total_tokens")
    return {
        "tokens_in": given,
        "tokens_out": generated,
        "tokens_reasoning": _count(after, "reasoning_tokens"),
        "tokens_total": given + generated
        if total is None and given is not None and generated is not None
        else total,
        "cached_tokens": cached,
        "cache_hit": None if cached is None else cached > 0,
        "cache_creation_tokens": created,
    }


def _finish_reason(answer: Mapping[str, Any]) -> Any:
    choices = answer.get("choices")
    if choices:
        return choices[0].get("finish_reason")
    return answer.get("stop_reason") or (answer.get("incomplete_details") or {}).get("reason")


def _items(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the output items, the message of a chat answer, or the content blocks of a message."""
    found = answer.get("output") or answer.get("content") or ()
    choices = answer.get("choices") or ()
    items = (
        [*found, *(choice.get("message") for choice in choices)] if isinstance(found, list | tuple) else []
    )
    return [item for item in items if isinstance(item, Mapping)]


def _tool_calls(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = []
    for item in _items(answer):
        if item.get("type") == "function_call":
            calls.append((item.get("name"), item.get("arguments"), item.get("call_id")))
        elif item.get("type") == "tool_use":
            calls.append((item.get("name"), item.get("input"), item.get("id")))
        for call in item.get("tool_calls") or ():
            function = call.get("function") or {}
            calls.append((function.get("name"), function.get("arguments"), call.get("id")))
    return [{"name": name, "arguments": _arguments(given), "call_id": call} for name, given, call in calls]


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return parse_tool_input(given or "{}")
    return given if isinstance(given, dict) else {}


def _read_reasoning(answer: Mapping[str, Any]) -> str | None:
    texts = []
    for item in _items(answer):
        if item.get("type") == "reasoning":
            texts += [part.get("text") for part in (item.get("content") or item.get("summary") or ())]
        texts += [item.get("thinking"), item.get("reasoning_content")]
    found = [text for text in texts if isinstance(text, str) and text]
    return "\n".join(found) or None


def _object(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    values = (counts.get(name) for name in names)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)
