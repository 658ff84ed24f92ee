"""Changes of the requests of an opened rollout: pinned fields, and the limits that its budgets set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.engines.gateway.openings import Opening, RolloutRefusal, RolloutTerms

_LIMIT_OF_API: Mapping[str, str] = {
    "responses": "max_output_tokens",
    "chat": "max_completion_tokens",
    "messages": "max_tokens",
}
_LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")
MARKER = "cache_control"
"""The member that `drop_markers` drops."""


def pin_terms(body: Mapping[str, Any], terms: RolloutTerms, api: str) -> Mapping[str, Any]:
    """Return the request with the rollout's sampling fields and model; `body` itself if it has none."""
    pins = terms.sampling.model_dump(exclude_none=True) if terms.sampling else {}
    limit = pins.pop("max_tokens", None)
    if limit is not None:
        body = {name: value for name, value in body.items() if name not in _LIMITS}
        pins[_LIMIT_OF_API[api]] = limit
    if terms.model is not None:
        pins["model"] = terms.model
    return {**body, **pins} if pins else body


def compute_limits(body: Mapping[str, Any], opening: Opening, calls: int, sampled: int) -> dict[str, int]:
    """Return the token limits for a request of a rollout that has made `calls` calls and `sampled` tokens.

    A limit is at most the rest of the budget. Without a budget there are none. Raises `RolloutRefusal` if nothing is
    left.
    """
    terms = opening.terms
    if terms.max_calls is not None and calls >= terms.max_calls:
        raise _build_budget_refusal(opening, f"{terms.max_calls} model calls")
    if terms.max_sampled_tokens is None:
        return {}
    rest = terms.max_sampled_tokens - sampled
    if rest <= 0:
        raise _build_budget_refusal(opening, f"{terms.max_sampled_tokens} sampled tokens")
    given = [name for name in _LIMITS if type(body.get(name)) is int]
    names = given or [_LIMIT_OF_API["responses" if "input" in body else "chat"]]
    return {name: min(body.get(name, rest), rest) for name in names}


def drop_markers(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without the marks for a provider's cache, which agents move from message to message."""
    return {
        name: _drop_marks(value) if name in ("messages", "system", "tools") else value
        for name, value in body.items()
        if name != MARKER
    }


def _drop_marks(value: Any) -> Any:
    """Return a message or block, or a list of them, without marks; the same object if there are none."""
    if isinstance(value, list):
        return [_drop_marks(part) for part in value]
    if isinstance(value, dict):
        content = value.get("content")
        if MARKER not in value and not isinstance(content, list):
            return value
        rest = {name: part for name, part in value.items() if name != MARKER}
        return {**rest, "content": _drop_marks(content)} if isinstance(content, list) else rest
    return value


def _build_budget_refusal(opening: Opening, budget: str) -> RolloutRefusal:
    # 400: agents retry 408, 409, 429 and 5xx, and end at other errors.
    return RolloutRefusal(
        f"rollout {opening.rollout_id} has used its budget of {budget}",
        code="rollout_budget_exhausted",
        status=400,
    )
