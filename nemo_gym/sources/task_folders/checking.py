"""Checks of task folders: the loader, the linter, what a run cannot honour, and the rewards of two agents.

A task is right if its solution gets the full reward, nothing gets none, and both twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from nemo_gym.failures import GymError
from nemo_gym.sources.task_folders.dataset import FolderDataset
from nemo_gym.sources.task_folders.folder import FolderTask
from nemo_gym.sources.task_folders.lint.findings import LintFinding, LintRule
from nemo_gym.sources.task_folders.lint.linting import lint_folder
from nemo_gym.sources.task_folders.requirements import Terms, find_refusals
from nemo_gym.sources.task_folders.rewards import find_main_reward
from nemo_gym.sources.task_folders.sandboxes import Sandboxes
from nemo_gym.sources.task_folders.trial import Trial

FULL_REWARD = 1.0


class Play(StrEnum):
    """An agent that a task is tried with."""

    SOLUTION = "solution"
    NOTHING = "nothing"


@dataclass(slots=True)
class FolderCheck:
    """The checks of one folder."""

    root: Path
    problems: list[str] = field(default_factory=list)
    findings: list[LintFinding] = field(default_factory=list)
    rewards: dict[str, list[float]] = field(default_factory=dict)
    """Play → its rewards."""

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def is_right(self) -> bool:
        return not self.problems


async def check_folders(
    dataset: FolderDataset,
    terms: Terms,
    sandboxes: Sandboxes | None,
    rules: Collection[LintRule],
    repeats: int = 2,
) -> AsyncIterator[FolderCheck]:
    """Yield the checks of every folder, in order; without `sandboxes`, those that start nothing."""
    for task in dataset.load():
        if not isinstance(task, FolderTask):
            yield FolderCheck(task.root, [f"{task.reason}: {task.failure.message}"])
            continue
        check = FolderCheck(task.root, findings=lint_folder(task.root, rules))
        refusals = find_refusals(task, terms)
        check.problems += [f"{each.reason}: {each.field}: {each.message}" for each in refusals]
        if sandboxes is not None and not refusals:
            await _try(task, terms, sandboxes, check, repeats)
        yield check


async def _try(
    task: FolderTask, terms: Terms, sandboxes: Sandboxes, check: FolderCheck, repeats: int
) -> None:
    plays = [Play.NOTHING]
    if task.find_solution(task.steps[0]) is None:
        check.problems.append(
            "no_solution: it has no solution/solve.sh, so that no one knows whether it can be solved"
        )
    else:
        plays.append(Play.SOLUTION)
    for play in plays:
        for _ in range(repeats):
            try:
                reward = await play_task(Trial(task, sandboxes, terms.variables), play)
            except GymError as error:
                check.problems.append(f"{play}: {error.failure.code}: {error.failure.message}")
                break
            check.rewards.setdefault(play, []).append(reward)
    for name, rewards in check.rewards.items():
        if len(set(rewards)) > 1:
            check.problems.append(f"unsteady: {name} gets {' and '.join(f'{each:g}' for each in rewards)}")
        elif name == Play.SOLUTION and rewards[0] < FULL_REWARD:
            check.problems.append(f"solution_fails: the solution gets {rewards[0]:g}")
        elif name == Play.NOTHING and rewards[0] > 0:
            check.problems.append(f"nothing_passes: nothing gets {rewards[0]:g}")


async def play_task(trial: Trial, play: Play) -> float:
    """Play a whole task by its solution, or by nothing, and return its main reward. Raises GymError."""
    try:
        await trial.start()
        while True:
            if play is Play.SOLUTION:
                await trial.play_solution()
            await trial.finish_step()
            if not await trial.begin_next_step():
                return find_main_reward(trial.combine())
    finally:
        await trial.close()
