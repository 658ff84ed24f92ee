"""Checks of task folders: the loader, the linter, what a run cannot honour, and the rewards of two agents.

A task is right if its solution gets the full reward, nothing gets none, and both twice. A third agent does nothing but
forge: it writes the reward files, and takes the names of the programs that tests usually run. A reward for it is a
remark and no fault, because the format's default lets agent and verifier share a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Iterator
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
from nemo_gym.sources.task_folders.settings import KNOWN_VERSIONS, PUBLISHED, VerifierMode
from nemo_gym.sources.task_folders.trial import Trial
from nemo_gym.sources.task_folders.verifier_program import find_program_fault

FULL_REWARD = 1.0
_FORGERY = """
mkdir -p /logs/verifier "${PATH%%:*}"
echo 1 > /logs/verifier/reward.txt; echo '{"reward": 1}' > /logs/verifier/reward.json
for name in pytest python python3 node go cargo make; do
    printf '#!/bin/sh\\nexit 0\\n' > "${PATH%%:*}/$name" && chmod +x "${PATH%%:*}/$name"
done
"""
_FORGERY_S = 60.0
_NO_SOLUTION = "no_solution: it has no solution/solve.sh, so that no one knows whether it can be solved"


class Play(StrEnum):
    """An agent that a task is tried with."""

    SOLUTION = "solution"
    NOTHING = "nothing"
    FORGERY = "forgery"


@dataclass(slots=True)
class FolderCheck:
    """The checks of one folder."""

    root: Path
    problems: list[str] = field(default_factory=list)
    findings: list[LintFinding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Remarks to the author of a task that is right."""
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
        check.remarks += _list_remarks(task)
        faults = [*_list_program_faults(task)]
        if sandboxes is None:
            check.problems += faults
            check.remarks += [_NO_SOLUTION] if task.find_solution(task.steps[0]) is None else []
        else:
            if not refusals:
                await _try(task, terms, sandboxes, check, repeats)
            check.problems += faults if check.problems else []  # a trial that is right has run the program
        yield check


def _list_program_faults(task: FolderTask) -> Iterator[str]:
    programs = {
        task.find_program(step): None
        for step in task.steps
        if task.find_test(step, image := task.find_verifier_image(step)) is None
        and not (image is not None and image.has_tests)
    }
    for program in filter(None, programs):
        if (fault := find_program_fault(program)) is not None:
            yield f"verifier_program: {os.path.relpath(program, task.root)}: {fault}"


def _list_remarks(task: FolderTask) -> Iterator[str]:
    """Yield what the format allows and an author hardly means."""
    settings = task.settings
    if settings.schema_version not in KNOWN_VERSIONS:
        known = f"this gym reads {KNOWN_VERSIONS[0]} to {KNOWN_VERSIONS[-1]}"
        yield f"schema_version: {settings.schema_version!r} is unknown, and {known}"
    is_separate = any(settings.find_mode(step) is VerifierMode.SEPARATE for step in task.steps)
    if is_separate and not any([settings.artifacts, *(step.artifacts for step in task.steps if step)]):
        yield f"no_artifacts: the separate verifier gets the files in {PUBLISHED} alone, as no artifacts are declared"


async def _try(
    task: FolderTask, terms: Terms, sandboxes: Sandboxes, check: FolderCheck, repeats: int
) -> None:
    plays, has_two_files = [Play.NOTHING], False
    if task.find_solution(task.steps[0]) is None:
        check.problems.append(_NO_SOLUTION)
    else:
        plays.append(Play.SOLUTION)
    for play in plays:
        for _ in range(repeats):
            trial = Trial(task, sandboxes, terms.variables)
            try:
                reward = await play_task(trial, play)
            except GymError as error:
                check.problems.append(f"{error.failure.code}: {play}: {error.failure.message}")
                break
            finally:
                has_two_files |= trial.has_two_reward_files
            check.rewards.setdefault(play, []).append(reward)
    await _try_forgery(Trial(task, sandboxes, terms.variables), check)
    if has_two_files:
        check.problems.append(
            "two_reward_files: the tests write reward.json and reward.txt; the first counts"
        )
    for name, rewards in check.rewards.items():
        if len(set(rewards)) > 1:
            check.problems.append(f"unsteady: {name} gets {' and '.join(f'{each:g}' for each in rewards)}")
        elif name == Play.SOLUTION and rewards[0] < FULL_REWARD:
            check.problems.append(f"solution_fails: the solution gets {rewards[0]:g}")
        elif name == Play.NOTHING and rewards[0] > 0:
            check.problems.append(f"nothing_passes: nothing gets {rewards[0]:g}")


async def _try_forgery(trial: Trial, check: FolderCheck) -> None:
    try:
        reward = await play_task(trial, Play.FORGERY)
    except GymError:
        return  # a verifier that gives no verdict is not deceived
    if reward > max(check.rewards.get(Play.NOTHING, [0.0])):
        check.remarks.append(
            f"forgeable: an agent that replaces the programs of the tests gets {reward:g}; "
            "a separate verifier prevents it"
        )


async def play_task(trial: Trial, play: Play) -> float:
    """Play a whole task by one of the agents, and return its main reward. Raises GymError."""
    try:
        await trial.start()
        while True:
            if play is Play.SOLUTION:
                await trial.play_solution()
            elif play is Play.FORGERY:
                await trial.run_command(_FORGERY, _FORGERY_S)
            await trial.finish_step()
            if not await trial.begin_next_step():
                return find_main_reward(trial.combine())
    finally:
        await trial.close()
