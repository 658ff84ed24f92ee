"""The audit of folders of tool tasks: every task is probed in a worker process with a fixed hash seed.

The outcomes of a task whose code hangs, crashes or cannot be loaded are one failed probe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nemo_gym.audit.card import OUTCOMES, Card, build_card
from nemo_gym.audit.journal import AuditJournal
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.audit.running import Budget, Probe, run_probes
from nemo_gym.audit.tool_scripts import GOLD, probe_tool_task
from nemo_gym.failures import GymError
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.sources.tool_tasks import CODE, STATE, ToolTask
from nemo_gym.sources.tool_tasks import GOLD as GOLD_FILE

HASH_SEED = "0"
"""`PYTHONHASHSEED` of the workers of `nemo_gym.processes.workers`."""
_TASK_TIMEOUT_S = 120.0


def plan_tool_probes(tasks: Sequence[ToolTask], pool: WorkerPool, seed: int) -> dict[str, Probe]:
    """Return the probes of each task, by its name."""
    return {task.name: partial(_probe, task, pool, seed) for task in tasks}


async def _probe(task: ToolTask, pool: WorkerPool, seed: int) -> list[ProbeOutcome]:
    try:
        found = await pool.run(probe_tool_task, str(task.folder), seed, timeout_s=_TASK_TIMEOUT_S)
    except GymError as error:
        return [
            ProbeOutcome(task.name, GOLD, Right.ACCEPT, Conclusion.FAILED, None, "", error.failure.message)
        ]
    return [ProbeOutcome.from_json(values) for values in found]


def describe_tool_tasks(tasks: Sequence[ToolTask]) -> Mapping[str, Any]:
    """Return what identifies the tasks: a digest of their files, and the hash seed of the workers."""
    digest = hashlib.sha256()
    for task in tasks:
        for name in (CODE, STATE, GOLD_FILE):
            digest.update(f"{task.name}/{name}\0".encode())
            digest.update((task.folder / name).read_bytes())
    return {"tool_tasks": len(tasks), "sha256": digest.hexdigest(), "PYTHONHASHSEED": HASH_SEED}


def count_least_probes(tasks: Sequence[ToolTask]) -> int:
    """Return how many runs of scripts the tasks take at least, for a dry run: one for each call that may write."""
    return sum(len(task.gold) + 4 for task in tasks)


async def audit_tool_tasks(
    name: str,
    tasks: Sequence[ToolTask],
    folder: Path,
    *,
    seed: int,
    resume: bool,
    max_probes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Card:
    """Probe the tasks and write `outcomes.jsonl`, `card.json` and `card.md` to `folder`."""
    about = describe_tool_tasks(tasks)
    journal = AuditJournal(folder / OUTCOMES, {"audit": name, "seed": seed, **about}, resume=resume)
    pool = WorkerPool()
    try:
        probes = plan_tool_probes(tasks, pool, seed)
        left_out = await run_probes(
            probes, journal, at_once=pool.size, budget=Budget(max_probes), progress=progress
        )
    finally:
        journal.close()
        await pool.close()
    notes = [f"{left_out} tasks are left out: the budget of {max_probes} probes."] if left_out else []
    card = build_card(name, journal.list_outcomes(), seed=seed, about=about, notes=notes)
    card.write(folder)
    return card
