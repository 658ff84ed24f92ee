"""The rollout that the running code belongs to. Its id is the session of the request context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import name_attempt
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
        within = replace(context, session=rollout_id, models=None) if context else RequestContext(rollout_id)
    previous = current_context.set(within)
    try:
        yield
    finally:
        current_context.reset(previous)


def maybe_rollout_id_from_run_body(body: AnyRow | Any) -> str | None:
    """Return the id of the attempt at a task row: its own, or one made of its indices; None if it has neither."""
    return name_attempt(body if isinstance(body, Mapping) else getattr(body, "model_extra", None) or {})
