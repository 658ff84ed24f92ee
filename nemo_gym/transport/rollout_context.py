"""The rollout that the running code belongs to. Its id is the session of the request context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nemo_gym.names import ATTEMPT_INDEX_KEY, ROLLOUT_ID_KEY, ROLLOUT_INDEX_KEY, TASK_INDEX_KEY
from nemo_gym.transport.context import RequestContext, current_context


def current_rollout_id() -> str | None:
    """Return the id of the current rollout attempt, or None outside of one."""
    context = current_context.get()
    return context.session if context is not None else None


@contextmanager
def rollout_context(rollout_id: str | None) -> Iterator[None]:
    """Calls within the block belong to the rollout `rollout_id`; None ends the rollout of the block around it."""
    context = current_context.get()
    if rollout_id is None:
        within = None
    else:
        within = replace(context, session=rollout_id) if context else RequestContext(rollout_id)
    previous = current_context.set(within)
    try:
        yield
    finally:
        current_context.reset(previous)


def maybe_rollout_id_from_run_body(body: Mapping[str, Any] | Any) -> str | None:
    """Return the id of the attempt at a task row: its own, or one made of its indices; None if it has neither."""
    row = body if isinstance(body, Mapping) else getattr(body, "model_extra", None) or {}
    attempt = row.get(ATTEMPT_INDEX_KEY) or 0
    name = row.get(ROLLOUT_ID_KEY)
    if name is None:
        if row.get(TASK_INDEX_KEY) is None or row.get(ROLLOUT_INDEX_KEY) is None:
            return None
        name = f"{row[TASK_INDEX_KEY]}-{row[ROLLOUT_INDEX_KEY]}"
    return f"{name}-a{attempt}" if attempt else str(name)
