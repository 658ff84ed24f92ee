"""Programs, with `echo` as the function in another interpreter."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from nemo_gym.processes import messages
from nemo_gym.processes.program import Program, wait_until_parent_ends
from tests.waiting import is_running, wait_until_gone

PARENT = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from nemo_gym.processes import messages
from nemo_gym.processes.program import Program
program = Program("tests.processes.test_program:wait_for_the_end", variables={"PYTHONPATH": sys.argv[1]}, grace_s=5)
messages.receive(program.channel)
reader, writer = os.pipe()
if sys.argv[2] == "fork" and os.fork() == 0:
    program.close()  # not a fork's to end
    os.close(1)
    os.close(writer)
    time.sleep(20)
    os._exit(0)
os.close(writer)
os.read(reader, 1)  # returns when the fork has closed the program
print(program.process.pid, program.process.poll(), flush=True)
if sys.argv[2] == "exit":
    sys.exit()
time.sleep(300)
"""


def echo(channel: socket.socket, *arguments: str) -> None:
    messages.send(channel, (arguments, os.environ["EXTRA"], os.getsid(0) == os.getpid(), sys.stdin.read()))


def wait_for_the_end(channel: socket.socket) -> None:
    async def wait() -> None:
        await wait_until_parent_ends(channel)

    messages.send(channel, "ready")
    asyncio.run(wait())


def linger(channel: socket.socket) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    messages.send(channel, "ready")
    time.sleep(300)


def program(name: str, *arguments: str, grace_s: float = 30.0) -> Program:
    variables = {"EXTRA": "variable", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return Program(f"tests.processes.test_program:{name}", *arguments, variables=variables, grace_s=grace_s)


def test_a_program_gets_its_arguments_its_environment_and_a_session_and_nothing_to_read() -> None:
    started = program("echo", "one", "two")
    assert messages.receive(started.channel) == (("one", "two"), "variable", True, "")
    started.close()
    assert started.process.returncode == 0


def test_closing_ends_a_program_and_kills_one_that_ignores_it() -> None:
    polite, stubborn = program("wait_for_the_end"), program("linger", grace_s=0.1)
    for each in (polite, stubborn):
        assert messages.receive(each.channel) == "ready"
        each.close()
        each.close()
    assert (polite.process.returncode, stubborn.process.returncode) == (0, -signal.SIGKILL)


def test_a_program_ends_when_its_object_is_collected() -> None:
    started = program("wait_for_the_end")
    assert messages.receive(started.channel) == "ready"
    pid = started.process.pid
    del started
    assert not is_running(pid)


@pytest.mark.parametrize("then", ["kill", "fork", "exit"])
def test_a_program_ends_with_its_parent(then: str) -> None:
    repository = __file__.removesuffix("/tests/processes/test_program.py")
    command = [sys.executable, "-c", PARENT, repository, then]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid, code = parent.stdout.readline().split()
        assert code == b"None"
        if then != "exit":
            parent.kill()
    wait_until_gone(int(pid))
