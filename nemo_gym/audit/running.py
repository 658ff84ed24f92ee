"""An audit in motion: tasks are probed a few at a time, within a budget, and written to the journal as they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nemo_gym.audit.journal import AuditJournal
from nemo_gym.audit.outcomes import ProbeOutcome

Probe = Callable[[], Awaitable[Sequence[ProbeOutcome]]]
"""Probes one task."""


@dataclass(slots=True)
class Budget:
    """The most probes of an audit; None for all. A task that has begun is finished."""

    probes: int | None = None
    spent: int = 0

    @property
    def is_spent(self) -> bool:
        return self.probes is not None and self.spent >= self.probes


async def run_probes(
    tasks: Mapping[str, Probe],
    journal: AuditJournal,
    *,
    at_once: int,
    budget: Budget,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> int:
    """Probe the tasks that the journal does not have. Returns how many are left out for the budget."""
    left = [name for name in tasks if name not in journal.done]
    waiting: Iterable[str] = iter(left)
    done = len(tasks) - len(left)
    skipped = 0

    async def work() -> None:
        nonlocal done, skipped
        for name in waiting:
            if budget.is_spent:
                skipped += 1
                continue
            outcomes = await tasks[name]()
            budget.spent += len(outcomes)
            journal.add(name, outcomes)
            done += 1
            progress(done, len(tasks))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, max(1, len(left)))):
            group.create_task(work())
    return skipped
