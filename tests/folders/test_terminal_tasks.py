"""Terminal tasks of a published corpus without network: each image is made, or the missing packages are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import GymError
from nemo_gym.sandbox.providers.rootless.debian import name_base
from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider
from nemo_gym.sources.task_folders.checking import Play, play_task
from nemo_gym.sources.task_folders.dataset import find_tasks
from nemo_gym.sources.task_folders.folder import FolderTask
from nemo_gym.sources.task_folders.requirements import LIMITS, Terms, find_refusals
from nemo_gym.sources.task_folders.sandboxes import Sandboxes
from nemo_gym.sources.task_folders.trial import Trial
from tests.chaos.faulty_gym import tell
from tests.folders.test_loader import SHARED
from tests.sandbox.rootless_images import needs_rootless

pytestmark = [pytest.mark.folders, needs_rootless]
TERMS = Terms(network="none", unlimited=frozenset(LIMITS))
READY = 4
"""The tasks that need nothing but the base system. `gym env prefetch` makes the images of others, with network."""


async def test_each_task_is_set_up_or_its_refusal_names_what_is_missing() -> None:
    provider = RootlessProvider()
    if not SHARED.is_dir() or not provider.store.layer(name_base([])).is_dir():
        pytest.skip(f"no tasks in {SHARED}, or no base system in {provider.store.folder} (gym env prefetch)")
    sandboxes = Sandboxes(provider, unlimited=TERMS.unlimited)
    rewards: dict[str, float] = {}
    refusals: dict[str, str] = {}
    tasks = [task for task in find_tasks(Path(SHARED)).load() if isinstance(task, FolderTask)]
    for task in tasks:
        assert find_refusals(task, TERMS) == []
        try:
            rewards[task.name] = await play_task(Trial(task, sandboxes), Play.NOTHING)
        except GymError as error:
            refusals[task.name] = error.failure.message
    tell("terminal tasks", set_up=sorted(rewards), refused=refusals)
    assert len(tasks) == 12
    assert len(rewards) >= READY
    assert set(rewards.values()) == {0.0}
    assert [said for said in refusals.values() if "these packages are missing: " not in said] == []
