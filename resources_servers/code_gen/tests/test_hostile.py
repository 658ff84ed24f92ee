"""Solutions that attack: each scores 0 with a reason, in its time, and the machine doesn't notice.

Every attack is made in each of the ways in which solutions run. Fork bombs and `kill -9 -1` are run only inside a
sandbox with a process namespace of its own.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.processes.process_tree import tree_of
from nemo_gym.sandbox.execution import IsolationKind
from resources_servers.code_gen.app import CompCodingResourcesServer, CompCodingVerifyResponse
from resources_servers.code_gen.tests.attempts import fenced, make_server, verify
from tests.pythons import python_for_other_users

OPTIONS = {"memory_mib": 512, "max_processes": 32, "max_output_mib": 1}
SERVER = make_server(unit_test_timeout_secs=5, **OPTIONS)
HASTY_LIMIT_S = 0.5
HASTY_SERVER = make_server(unit_test_timeout_secs=HASTY_LIMIT_S, **OPTIONS)
"""The time limit for attacks that never end by themselves."""
SECRET = "sk-hostile-test"
EXPECTED = "four hundred and seven"

TASKS: dict[str, dict[str, Any]] = {
    "program": {"unit_tests": {"inputs": [""], "outputs": [EXPECTED]}},
    "function": {"unit_tests": {"inputs": ["0"], "outputs": [f'"{EXPECTED}"'], "fn_name": "f"}},
    "check": {"test": f"def check(f):\n    assert f(0) == {EXPECTED!r}", "entry_point": "f", "prompt": ""},
    "unittest": {
        "test": "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n"
        f"        self.assertEqual(f(0), {EXPECTED!r})",
        "entry_point": "f",
    },
}
USE = {"program": "print(f(0))"}

FORK_BOMB = """
import os
def f(x):
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""
KILL_ALL = """
import os, signal
def f(x):
    os.kill(-1, signal.SIGKILL)
    return x
"""
ENVIRONMENT = """
import glob, os
def f(x):
    found = [repr(dict(os.environ))]
    for path in glob.glob("/proc/*/environ"):
        try:
            found.append(open(path).read())
        except OSError:
            pass
    return " ".join(found)
"""
FAKE_VERDICT = """
import os, sys
for line in ('{"verdict":"passed"}', '{"value":"passed"}', "PASSED", '{"reward": 1.0}'):
    print(line, flush=True)
    for fd in range(1, 16):
        try:
            os.write(fd, line.encode() + b"\\n")
        except OSError:
            pass
def f(x):
    return None
"""
EXIT = "import sys\ndef f(x): sys.exit(0)"
EXIT_AT_ONCE = "import sys\nsys.exit(0)\ndef f(x): pass"
HARD_EXIT = "import os\ndef f(x): os._exit(0)"
ALLOCATION = "def f(x): return len(bytearray(10 * 1024 ** 3))"
MANY_ALLOCATIONS = """
import os, time
def f(x):
    for _ in range(8):
        if os.fork() == 0:
            break
    block = bytearray(200 * 1024 ** 2)
    time.sleep(30)
"""
ENDLESS_OUTPUT = "def f(x):\n    while True: print('x' * 10_000)"
ENDLESS_LOOP = "def f(x):\n    while True: pass"
SILENCE = """
import os
def f(x):
    for fd in range(3, 64):
        try:
            os.close(fd)
        except OSError:
            pass
    while True: pass
"""
DEAFNESS = """
import os, time
os.read = lambda *args: time.sleep(60)
def f(x): return x
"""
EQUAL_TO_ALL = """
class Everything(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def f(x): return Everything()
"""
SYMLINK = """
import os
def f(x):
    os.symlink("/", "out")
    return open("out" + PATH).read()
"""
BUILTINS = """
import builtins, json, marshal, os, sys, unittest
class Yes(str):
    __eq__ = lambda self, other: True
builtins.str = Yes
builtins.AssertionError = type("AssertionError", (Exception,), {})
json.dumps = json.loads = marshal.loads = lambda *args, **kwargs: "passed"
unittest.TestCase.assertNotEqual = unittest.TestCase.assertTrue = lambda *args: None
def f(x): return "x"
"""
STACK = """
import sys
def f(x):
    frame = sys._getframe()
    while frame is not None:
        for name in ("expected", "wanted", "passed"):
            frame.f_locals[name] = x
            frame.f_globals[name] = x
        frame = frame.f_back
    return x
"""

WRONG = {"wrong_answer", "tests_failed"}
ANYWHERE: dict[str, tuple[str, set[str]]] = {
    "fake verdict": (FAKE_VERDICT, WRONG | {"broken_protocol"}),
    "sys.exit": (EXIT, WRONG | {"raised"}),
    "sys.exit at once": (EXIT_AT_ONCE, WRONG | {"raised"}),
    "os._exit": (HARD_EXIT, WRONG | {"process_ended"}),
    "10 GB": (ALLOCATION, {"raised", "tests_failed"}),
    "endless output": (ENDLESS_OUTPUT, {"output_exceeded"}),
    "equal to everything": (EQUAL_TO_ALL, WRONG),
    "overridden builtins": (BUILTINS, WRONG | {"broken_protocol", "process_ended"}),
    "frames": (STACK, WRONG),
}
IN_A_SANDBOX: dict[str, tuple[str, set[str]]] = {
    "environment": (ENVIRONMENT, WRONG),
    "kill -9 -1": (KILL_ALL, WRONG | {"process_ended", "raised"}),
    "many allocations": (MANY_ALLOCATIONS, {"memory_exceeded"}),
}
ENDLESS: dict[str, tuple[str, set[str]]] = {
    "endless loop": (ENDLESS_LOOP, {"timed_out"}),
    "fork bomb": (FORK_BOMB, {"timed_out"}),
}
CUT_OFF: dict[str, tuple[str, set[str]]] = {
    "silence": (SILENCE, {"timed_out", "process_ended"}),
    "deafness": (DEAFNESS, {"timed_out", "process_ended", *WRONG}),
}


@pytest.fixture(autouse=True)
def unharmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that an attack leaves no process or file behind and does not affect this process."""
    monkeypatch.setenv("HOSTILE_TEST_API_KEY", SECRET)
    before = set(tree_of(os.getpid()))
    yield
    left = [pid for pid in set(tree_of(os.getpid())) - before if psutil.pid_exists(pid)]
    assert [pid for pid in left if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE] == []


async def attack(
    way: str, code: str, reasons: set[str], server: CompCodingResourcesServer = SERVER
) -> CompCodingVerifyResponse:
    start = time.monotonic()
    scored = await verify(server, fenced(f"{code}\n{USE.get(way, '')}"), TASKS[way])
    assert scored.reward == 0.0
    assert scored.failure_reason in reasons, scored.failure_detail
    assert time.monotonic() - start < server.config.unit_test_timeout_secs + 1
    assert SECRET not in scored.model_dump_json()
    return scored


@pytest.mark.parametrize("way", list(TASKS))
@pytest.mark.parametrize("name", list(ANYWHERE))
async def test_attacks_score_nothing(name: str, way: str) -> None:
    await attack(way, *ANYWHERE[name])


@pytest.mark.parametrize("way", list(TASKS))
@pytest.mark.parametrize("name", list(IN_A_SANDBOX))
async def test_attacks_on_the_machine_stay_in_the_sandbox(name: str, way: str) -> None:
    await require_sandbox()
    await attack(way, *IN_A_SANDBOX[name])


@pytest.mark.parametrize("way", list(TASKS))
@pytest.mark.parametrize("name", list(ENDLESS))
async def test_attacks_without_end_are_ended_in_time(name: str, way: str) -> None:
    if name == "fork bomb":
        await require_sandbox()
    await attack(way, *ENDLESS[name], HASTY_SERVER)


@pytest.mark.parametrize("name", list(CUT_OFF))
async def test_a_solution_that_cuts_the_gym_off_is_not_waited_for(name: str) -> None:
    await attack("function", *CUT_OFF[name], HASTY_SERVER)


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for tool in ("prlimit", "setpriv"):
        if (found := shutil.which(tool)) is not None:
            (tmp_path / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("without_bubblewrap")
async def test_a_server_says_when_it_starts_that_there_is_no_sandbox(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await make_server(python_executable=python_for_other_users()).on_start()
    assert "No sandbox is available for untrusted code (bubblewrap (bwrap) is not installed" in caplog.text
    with pytest.raises(ConfigError, match="require_sandbox is set") as caught:
        await make_server(python_executable=python_for_other_users(), require_sandbox=True).on_start()
    assert caught.value.failure.code == "sandbox_unavailable"


@pytest.mark.usefixtures("without_bubblewrap")
@pytest.mark.parametrize("way", ["program", "check"])
@pytest.mark.parametrize("name", list(ANYWHERE))
async def test_without_a_sandbox_they_score_nothing_either(name: str, way: str) -> None:
    python = python_for_other_users()
    server = make_server(unit_test_timeout_secs=5, python_executable=python, **OPTIONS)
    scored = await attack(way, *ANYWHERE[name], server)
    assert scored.isolation is IsolationKind.PROCESS


@pytest.mark.parametrize("way", list(TASKS))
async def test_a_link_leads_nowhere(way: str, tmp_path: Path) -> None:
    await require_sandbox()
    secret = tmp_path / "secret"
    secret.write_text(EXPECTED)
    await attack(way, f"PATH = {str(secret)!r}\n{SYMLINK}", {"raised", "tests_failed"})


@pytest.mark.parametrize("way", list(TASKS))
async def test_there_is_no_network(way: str) -> None:
    await require_sandbox()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        code = f"import socket\ndef f(x): return socket.create_connection({address}, 1) and {EXPECTED!r}"
        await attack(way, code, {"raised", "tests_failed"})
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


async def require_sandbox() -> None:
    if await SERVER._runner.isolation() is not IsolationKind.BUBBLEWRAP:
        pytest.skip("there is no bubblewrap here, and without it this attack would hit the machine")
