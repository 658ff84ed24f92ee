"""The memory limit holds for all processes together, shared memory included."""

from __future__ import annotations

import pytest

from nemo_gym.isolation import memory
from nemo_gym.isolation.confinement import MIB
from nemo_gym.isolation.execution import ConfinedRunner, Ending, SandboxLimits
from tests.isolation.confined import run

SHARED_MEMORY = """
import mmap, os, time
for _ in range(3):
    if os.fork() == 0:
        break
memory = mmap.mmap(-1, 40 << 20)
for _ in range(40):
    memory.write(bytes(1 << 20))
memory.madvise(mmap.MADV_DONTNEED)  # the pages stay, and belong to no process
time.sleep(100)
"""


@pytest.mark.parametrize("has_groups", [True, False])
async def test_shared_memory_counts_towards_the_limit(
    sandbox: ConfinedRunner, has_groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_groups:
        monkeypatch.setattr(memory, "_parent", lambda: None)
    elif memory._parent() is None:
        pytest.skip("this machine has no writable cgroup with a memory limit")
    done = await run(sandbox, SHARED_MEMORY, limits=SandboxLimits(wall_s=60, memory_bytes=128 * MIB))
    assert done.ending is Ending.MEMORY_EXCEEDED


def test_a_group_is_gone_after_its_removal() -> None:
    group = memory.make_memory_group(1 << 30)
    if group is None:
        pytest.skip("this machine has no writable cgroup with a memory limit")
    assert not group.is_exceeded()
    group.remove()
    group.remove()
    with pytest.raises(FileNotFoundError):
        open(group.processes_file)  # noqa: PTH123, SIM115 - it must not exist
