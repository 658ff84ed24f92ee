from __future__ import annotations

import os
import subprocess

from nemo_gym.processes.process_tree import kill, list_descendants
from tests.waiting import wait_until, wait_until_gone


def test_a_tree_has_all_descendants_and_can_be_killed() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 300 & sleep 300; true"]) as shell:
        wait_until(lambda: len(list(list_descendants(shell.pid))) == 2)
        found = list(list_descendants(shell.pid))
        assert shell.pid in list_descendants(os.getpid())
        for pid in (shell.pid, *found):
            kill(pid)
    for pid in found:
        wait_until_gone(pid)
    kill(shell.pid)
    assert list(list_descendants(shell.pid)) == []
