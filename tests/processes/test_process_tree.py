from __future__ import annotations

import os
import subprocess

from nemo_gym.processes.process_tree import kill, resident_bytes, tree_of
from tests.waiting import wait_until, wait_until_gone


def test_a_tree_has_all_descendants_and_can_be_killed() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 300 & sleep 300; true"]) as shell:
        wait_until(lambda: len(list(tree_of(shell.pid))) == 2)
        found = list(tree_of(shell.pid))
        assert shell.pid in tree_of(os.getpid())
        assert resident_bytes(shell.pid) > 0
        for pid in (shell.pid, *found):
            kill(pid)
    for pid in found:
        wait_until_gone(pid)
    kill(shell.pid)
    assert list(tree_of(shell.pid)) == []
    assert resident_bytes(shell.pid) == 0
