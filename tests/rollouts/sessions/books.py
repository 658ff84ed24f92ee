"""Books with groups of members that tests make by hand."""

from __future__ import annotations

from typing import Any

from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.groups import Member, Versions
from nemo_gym.rollouts.sessions.options import SessionOptions


def options(**given: Any) -> SessionOptions:
    return SessionOptions.model_validate({"group_size": 2, **given})


def book(*keys: str, **given: Any) -> GroupBook:
    made = GroupBook(options(**given))
    for key in keys:
        made.submit(key, 0, f"digest of {key}", key)
    return made


def member(
    repeat: int = 0,
    *,
    oldest: int = 0,
    newest: int | None = None,
    metric: float | None = 1.0,
    tokens: int = 10,
) -> Member:
    versions = Versions(oldest, oldest if newest is None else newest)
    failure = {"code": "engine_down"} if metric is None else None
    return Member(repeat, versions, metric, tokens, 1.0, failure)


def start_all(of: GroupBook) -> list[tuple[int, int]]:
    """Draw everything that can start now."""
    started = []
    while (start := of.draw()) is not None:
        started.append((start.group.number, start.repeat))
    return started


def settle_all(of: GroupBook, started: list[tuple[int, int]], **fields: Any) -> None:
    for number, repeat in started:
        of.settle(number, member(repeat, metric=float(repeat), **{"oldest": of.version, **fields}))
