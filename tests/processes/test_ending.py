"""A process ends with its parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import is_running, until

PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
print(child.pid, flush=True)
sys.stdin.read()
os._exit(0)
"""
CHILD = """
import os, sys
from nemo_gym.processes.ending import end_with_parent
end_with_parent(os.getppid())
os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(300)"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep the setting across exec")
async def test_a_child_ends_with_its_parent_even_after_exec() -> None:
    with subprocess.Popen(  # noqa: ASYNC220 - the parent under test
        [sys.executable, "-c", PARENT, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        child = int(parent.stdout.readline())
        await until(lambda: _command_line(child).endswith(b"\0import time; time.sleep(300)\0"))
        parent.stdin.close()
    assert parent.returncode == 0
    await until(lambda: not is_running(child))


def test_a_process_whose_parent_has_ended_already_exits() -> None:
    code = "from nemo_gym.processes.ending import end_with_parent; end_with_parent(1 << 22)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode != 0


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
