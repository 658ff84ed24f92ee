"""The program between server and engine ends every process of the engine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from nemo_gym.processes.program import Program
from responses_api_models.local_vllm_model.engine_process import PROGRAM
from tests.waiting import wait_until, wait_until_gone

ENGINE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
worker = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {worker.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(1000)
"""


def test_processes_that_ignore_sigterm_in_sessions_of_their_own_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = Program(PROGRAM, json.dumps([sys.executable, "-c", ENGINE, str(pids)]), "0.1", grace_s=30)
    wait_until(pids.is_file)
    program.close()
    for pid in map(int, pids.read_text().split()):
        wait_until_gone(pid)


def test_the_engine_s_exit_code_is_the_program_s() -> None:
    program = Program(PROGRAM, json.dumps([sys.executable, "-c", "raise SystemExit(7)"]), "0.1", grace_s=30)
    assert program.process.wait() == 7
