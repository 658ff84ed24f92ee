"""Solutions that attack: each scores 0 with a reason, and leaves no process and no file on the machine.

Attacks are made in all ways in which solutions run, and in each isolation of this machine. Where the tests run as
root, the last test runs them again as another user.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.isolation.execution import IsolationKind
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.processes.process_tree import list_descendants
from nemo_gym.processes.workers import default_pool
from nemo_gym.testing import InProcessGym
from resources_servers.code_gen.app import CompCodingResourcesServer, CompCodingVerifyResponse
from resources_servers.code_gen.tests.attempts import attempt, fenced, make_server, verify
from tests.samples import one_in
from tests.waiting import until

pytestmark = pytest.mark.long_file

OPTIONS = {"memory_mib": 512, "max_processes": 32, "max_output_mib": 1}
TIMEOUT_S = 3.0
HASTY_TIMEOUT_S = 0.5
"""The time limit for attacks that never end by themselves."""
NOBODY = 65534
FIRST_SANDBOX_USER = 1 << 24
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

MEMFD = """
import os
def f(x):
    for number in range(40):
        os.write(os.memfd_create(str(number)), bytes(60 << 20))
    return EXPECTED
""".replace("EXPECTED", repr(EXPECTED))
HIDDEN_MAPPINGS = """
import mmap, os, time
def f(x):
    for _ in range(8):
        if os.fork() == 0:
            break
    held = mmap.mmap(-1, 200 << 20)
    for _ in range(200):
        held.write(bytes(1 << 20))
        held.madvise(mmap.MADV_DONTNEED)
    while True: time.sleep(1)
"""
USER_NAMESPACE = """
import ctypes, os
def f(x):
    if ctypes.CDLL(None).unshare(0x10000000) == 0:
        return EXPECTED
    return os.strerror(1)
""".replace("EXPECTED", repr(EXPECTED))
DOUBLE_FORK = """
import os, time
def f(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(64):
                try: os.close(fd)
                except OSError: pass
            os.execve("/bin/sleep", ["sleep", "7654321"], {})
        os._exit(0)
    time.sleep(0.2)
    return x
"""
HUGE_INTEGER = "def f(x): return 10 ** 6000"
ANY = "from unittest import mock\ndef f(x): return mock.ANY"
PARTIAL_METHOD = """
import functools
class Number(int):
    __eq__ = functools.partialmethod(lambda *args: True)
    __hash__ = int.__hash__
def f(x): return Number(3)
"""
NONCE = """
import gc, os, sys
def f(x):
    frame = sys._getframe()
    while frame is not None:
        for name, value in {**frame.f_globals, **frame.f_locals}.items():
            if name in ("channel", "candidate", "job"):
                print(name, value, file=sys.stderr)
        frame = frame.f_back
    for fd in range(3, 16):
        try:
            os.write(fd, b'verdict {"passed":true}\\n')
        except OSError:
            pass
    return x
"""

WRONG = {"wrong_answer", "tests_failed"}
ATTACKS: dict[str, tuple[str, set[str]]] = {
    "fake verdict": (FAKE_VERDICT, WRONG | {"broken_protocol"}),
    "sys.exit": (EXIT, WRONG | {"raised"}),
    "sys.exit at once": (EXIT_AT_ONCE, WRONG | {"raised"}),
    "os._exit": (HARD_EXIT, WRONG | {"process_ended"}),
    "10 GB": (ALLOCATION, {"raised", "tests_failed"}),
    "endless output": (ENDLESS_OUTPUT, {"output_exceeded"}),
    "equal to everything": (EQUAL_TO_ALL, WRONG),
    "overridden builtins": (BUILTINS, WRONG | {"broken_protocol", "process_ended"}),
    "frames": (STACK, WRONG),
    "environment": (ENVIRONMENT, WRONG),
    "kill -9 -1": (KILL_ALL, WRONG | {"process_ended", "raised"}),
    "many allocations": (MANY_ALLOCATIONS, {"memory_exceeded"}),
    "memory files": (MEMFD, {"raised", "tests_failed", "process_ended"}),
    "hidden mappings": (HIDDEN_MAPPINGS, {"memory_exceeded"}),
    "user namespace": (USER_NAMESPACE, WRONG),
    "double fork": (DOUBLE_FORK, WRONG),
    "huge integer": (HUGE_INTEGER, WRONG | {"raised"}),
    "mock.ANY": (ANY, WRONG | {"not_plain_data"}),
    "partialmethod": (PARTIAL_METHOD, WRONG),
    "nonce in a frame": (NONCE, WRONG | {"broken_protocol"}),
}
ENDLESS: dict[str, tuple[str, set[str]]] = {
    "endless loop": (ENDLESS_LOOP, {"timed_out"}),
    "fork bomb": (FORK_BOMB, {"timed_out"}),
    "sleep": ("import time\ndef f(x): time.sleep(1000)", {"blocked"}),
}
CUT_OFF: dict[str, tuple[str, set[str]]] = {
    "silence": (SILENCE, {"timed_out", "process_ended"}),
    "deafness": (DEAFNESS, {"blocked", "timed_out", "process_ended", *WRONG}),
}


UNREADABLE = {
    "a message": r"raise ValueError('\ud800')",
    "a message at once": r"raise ValueError('a\udc80')",
    "an exception of its own": r"class E(Exception): __str__ = lambda self: '\udfff'" + "\nraise E",
    "the name of a class": r"class C: pass"
    + "\nC.__module__ = '\\ud800'\nC.__qualname__ = 'C\\udfff'\nreturn C()",
    "a key": r"return {'\ud800': '\udc00'}",
    "standard error": r"import sys; sys.stderr.buffer.write(b'\xed\xa0\x80'); sys.exit(3)",
    "a message of the harness": "import os\nfor fd in range(3, 16):\n"
    '    try: os.write(fd, rb\'value {"opaque":"\\ud800"}\' + b\'\\nraised ["\\xed\\xa0\\x80", ""]\\n\')\n'
    "    except OSError: pass",
}
"""Bodies of functions that bring a text with half a surrogate pair into the verdict."""


@pytest.fixture(autouse=True)
async def unharmed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Check that an attack leaves no process behind and does not affect this process."""
    monkeypatch.setenv("HOSTILE_TEST_API_KEY", SECRET)
    await default_pool().start()
    before = set(list_descendants(os.getpid()))
    yield
    await until(lambda: not left_over(before))


def left_over(before: set[int]) -> list[int]:
    """The processes of attacks that still run: descendants of this one, and those of sandbox users."""
    found = []
    for process in psutil.process_iter(["uids", "status", "cmdline"]):
        is_ours = process.pid in set(list_descendants(os.getpid())) - before
        is_orphan = (process.info["cmdline"] or [""])[-1] == "7654321"
        is_sandboxed = process.info["uids"] is not None and process.info["uids"].real >= FIRST_SANDBOX_USER
        if (is_ours or is_orphan or is_sandboxed) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for tool in ("prlimit", "setpriv"):
        if (found := shutil.which(tool)) is not None:
            (tmp_path / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))


_servers: dict[tuple[IsolationKind, float], CompCodingResourcesServer] = {}


async def server_in(
    kind: IsolationKind, request: pytest.FixtureRequest, timeout_s: float = TIMEOUT_S
) -> CompCodingResourcesServer:
    """A server whose solutions run in an isolation. Skips the test if this machine does not have it."""
    if (kind, timeout_s) not in _servers:
        if kind is not IsolationKind.BUBBLEWRAP:
            request.getfixturevalue("without_bubblewrap")
        server = make_server(unit_test_timeout_secs=timeout_s, **OPTIONS)
        try:
            found = await server._runner.isolation()
        except ConfigError as error:
            pytest.skip(str(error))
        if found is not kind:
            pytest.skip(f"this machine has no {kind}")
        _servers[kind, timeout_s] = server
    return _servers[kind, timeout_s]


KINDS = (IsolationKind.BUBBLEWRAP, IsolationKind.OWN_USER)
every_way = pytest.mark.parametrize("way", list(TASKS))


def in_turn(names: Iterable[str], ways: Iterable[str] = TASKS) -> pytest.MarkDecorator:
    """A test of each attack in a quarter of all ways and isolations, which are others for the next attack."""
    rounds = [[(name, way, kind) for way in ways for kind in KINDS] for name in names]
    tried = [
        case for turn, cases in enumerate(rounds) for case in one_in(4, cases[turn % 4 :] + cases[: turn % 4])
    ]
    return pytest.mark.parametrize(("name", "way", "kind"), tried)


async def attack(
    server: CompCodingResourcesServer, way: str, code: str, reasons: set[str]
) -> CompCodingVerifyResponse:
    scored = await verify(server, fenced(f"{code}\n{USE.get(way, '')}"), TASKS[way])
    assert scored.reward == 0.0
    assert scored.failure_reason in reasons, scored.failure_detail
    assert SECRET not in scored.model_dump_json()
    assert scored.tamperable is (way == "unittest")
    return scored


@in_turn(ATTACKS)
async def test_attacks_score_nothing(
    name: str, way: str, kind: IsolationKind, request: pytest.FixtureRequest
) -> None:
    scored = await attack(await server_in(kind, request), way, *ATTACKS[name])
    assert scored.isolation is kind


@in_turn(ENDLESS)
async def test_attacks_without_end_are_ended(
    name: str, way: str, kind: IsolationKind, request: pytest.FixtureRequest
) -> None:
    await attack(await server_in(kind, request, HASTY_TIMEOUT_S), way, *ENDLESS[name])


@in_turn(CUT_OFF, ways=("function",))
async def test_a_solution_that_cuts_the_gym_off_is_not_waited_for(
    name: str, way: str, kind: IsolationKind, request: pytest.FixtureRequest
) -> None:
    await attack(await server_in(kind, request, HASTY_TIMEOUT_S), way, *CUT_OFF[name])


@every_way
async def test_a_link_leads_nowhere(way: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    secret = tmp_path / "secret"
    secret.write_text(EXPECTED)
    server = await server_in(IsolationKind.BUBBLEWRAP, request)
    await attack(server, way, f"PATH = {str(secret)!r}\n{SYMLINK}", {"raised", "tests_failed"})


@every_way
async def test_there_is_no_network(way: str, request: pytest.FixtureRequest) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        code = f"import socket\ndef f(x): return socket.create_connection({address}, 1) and {EXPECTED!r}"
        server = await server_in(IsolationKind.BUBBLEWRAP, request)
        await attack(server, way, code, {"raised", "tests_failed"})
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user cannot give programs a user of their own")
async def test_a_user_of_its_own_cannot_write_to_the_machine(request: pytest.FixtureRequest) -> None:
    server = await server_in(IsolationKind.OWN_USER, request)
    targets = ["/etc/nemo_gym_was_here", "/usr/nemo_gym_was_here", str(Path.cwd() / "nemo_gym_was_here")]
    code = f"""
import os
def f(x):
    for path in {targets!r}:
        try:
            open(path, "w")
        except OSError:
            continue
        return {EXPECTED!r}
    return os.getuid()
"""
    scored = await attack(server, "function", code, WRONG)
    assert int((scored.failure_detail or "").split()[-1]) >= FIRST_SANDBOX_USER


@pytest.mark.skipif(os.geteuid() == 0, reason="root gives every program a user of its own")
@pytest.mark.usefixtures("without_bubblewrap")
async def test_without_any_isolation_a_server_does_not_start() -> None:
    with pytest.raises(ConfigError, match="cannot be run safely here") as caught:
        await make_server().on_start()
    assert caught.value.failure.code == "sandbox_unavailable"
    assert "allow_unsandboxed" in str(caught.value.failure.remedy)


@pytest.mark.usefixtures("without_bubblewrap")
async def test_a_server_that_requires_bubblewrap_does_not_start_without() -> None:
    with pytest.raises(ConfigError) as caught:
        await make_server(require_sandbox=True).on_start()
    assert caught.value.failure.code == "sandbox_unavailable"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run the tests as another user")
def test_attacks_fail_on_the_gym_of_another_user() -> None:
    python = PythonInstallation.from_gym()
    packages = filter(None, sys.path)
    command = [
        *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env"),
        *("HOME=/tmp", f"PYTHONPATH={':'.join(packages)}", "PYTHONDONTWRITEBYTECODE=1"),
        *python.build_open_command(
            [python.executable, "-m", "pytest", "-x", "-rs", "-p", "no:cacheprovider"]
        ),
        *(f"--rootdir={Path.cwd()}", "-n", "0", __file__),
    ]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "test_without_any_isolation" not in done.stdout
    assert " passed" in done.stdout


@pytest.mark.parametrize("name", UNREADABLE)
@every_way
async def test_a_text_that_no_row_can_hold_is_shown_readably(name: str, way: str) -> None:
    try:
        await make_server(**OPTIONS)._runner.isolation()
    except ConfigError as error:
        pytest.skip(str(error))
    body = UNREADABLE[name].replace("\n", "\n    ")
    code = f"{body}\ndef f(x): pass" if name == "a message at once" else f"def f(x):\n    {body}"
    gym = InProcessGym()
    gym.add(CompCodingResourcesServer, "env", unit_test_timeout_secs=TIMEOUT_S)
    row = attempt(fenced(f"{code}\n{USE.get(way, '')}"), TASKS[way])
    scored = orjson.loads((await gym.post("env", "/verify", row)).body)
    assert (scored["reward"], scored.get("answer_fault")) == (0.0, None)
    assert scored["failure_reason"] not in (None, "no_code", "does_not_compile")
    assert scored["failure_detail"]
