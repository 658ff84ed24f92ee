"""Solutions and their tests: passing ones, the reasons of failures, and errors of the tests themselves."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.isolation import memory, process
from nemo_gym.isolation.execution import Ending, SandboxLimits
from nemo_gym.processes.workers import default_pool
from nemo_gym.verify._code_verdicts import Reason
from nemo_gym.verify.code_execution import (
    CallCase,
    Checks,
    CheckStyle,
    CodeRunner,
    CodeVerdict,
    ProgramCase,
)

SQUARE = [ProgramCase("3\n", "9\n"), ProgramCase("4\n", "16\n")]


@pytest.fixture
def runner() -> CodeRunner:
    return CodeRunner(max_concurrency=2, limits=SandboxLimits(output_bytes=100_000))


@pytest.mark.parametrize(
    "source",
    [
        "n = int(input())\nprint(n * n)",
        "import sys\nn = int(sys.stdin.read())\nsys.stdout.write(f'{n * n}')",
        "n = int(open(0).read())\nprint(n * n)",
        "import sys\nn = int(sys.stdin.buffer.readline())\nprint(n * n); sys.exit()",
        "import sys, os\nprint(int(input()) ** 2); sys.stdout.flush(); os._exit(0)",
        "def main():\n    print(int(input()) ** 2)\nif __name__ == '__main__':\n    main()",
        "import threading\nthreading.Thread(target=lambda: print(int(input()) ** 2)).start()",
        "import atexit\natexit.register(lambda: print(int(input()) ** 2))",
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and f(n - 1)\nprint(f(9999) + int(input()) ** 2)",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    n: int\nprint(P(int(input())).n ** 2)",
        "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'read n; echo $((n * n))'])",
    ],
)
async def test_programs_in_many_styles_pass(runner: CodeRunner, source: str) -> None:
    verdict = await runner.run_programs(source, SQUARE)
    assert (verdict.passed, verdict.detail, verdict.tests_passed) == (True, "", 2)


@pytest.mark.parametrize(
    ("source", "reason", "passed", "detail"),
    [
        ("print(9)", Reason.WRONG_ANSWER, 1, "it printed '9\\n'"),
        ("", Reason.WRONG_ANSWER, 0, "it printed ''"),
        ("print(", Reason.DOES_NOT_COMPILE, 0, "SyntaxError: '(' was never closed (<solution>, line 1)"),
        ("int(input()) / 0", Reason.RAISED, 0, "ZeroDivisionError: division by zero"),
        ("print(int(input()) ** 2); exit(2)", Reason.RAISED, 0, "exit status 2"),
        ("import os; os.abort()", Reason.PROCESS_ENDED, 0, "ended by signal 6"),
        ("while True: pass", Reason.TIMED_OUT, 0, ""),
        ("print('x' * 200_000)", Reason.OUTPUT_EXCEEDED, 0, ""),
    ],
)
async def test_programs_fail_for_a_reason(
    runner: CodeRunner, source: str, reason: Reason, passed: int, detail: str
) -> None:
    verdict = await runner.run_programs(source, SQUARE, timeout_s=1)
    assert (verdict.reason, verdict.tests_passed, verdict.detail) == (reason, passed, detail)


async def test_runs_for_different_inputs_share_no_state(runner: CodeRunner) -> None:
    source = "import os\nprint('seen' in globals(), len(os.listdir('/proc/self/fd')), int(input()))\nseen = 1"
    cases = [ProgramCase("1", "False 4 1"), ProgramCase("2", "False 4 2")]
    assert (await runner.run_programs(source, cases)).passed


async def test_the_first_candidate_source_that_compiles_is_used(runner: CodeRunner) -> None:
    ways = ["print(", "print(int(input()) ** 2)", "print(0)"]
    assert (await runner.run_programs(ways, SQUARE)).passed
    verdict = await runner.run_programs(["first(", "second)"], SQUARE)
    assert (verdict.reason, verdict.detail) == (
        Reason.DOES_NOT_COMPILE,
        "SyntaxError: '(' was never closed (<solution>, line 1)",
    )


@pytest.mark.parametrize(
    "source", ["-" * 100_000 + "1", "a" + ".b" * 100_000, "(" * 5_000, "x = " + "1 + " * 100_000 + "1", "\0"]
)
async def test_a_program_that_breaks_the_parser_breaks_its_sandbox_only(
    runner: CodeRunner, source: str
) -> None:
    assert not (await runner.run_programs(source, SQUARE, timeout_s=5)).passed


@pytest.mark.parametrize(
    ("source", "name", "case"),
    [
        ("def f(a, b): return a + b", "f", CallCase([1, 2], [3])),
        ("class Solution:\n    def f(self, a): return a[::-1]", "f", CallCase([[1, 2]], [[2, 1]])),
        ("def f(): return (1, [2.0, None], True)", "f", CallCase([], [[1, [2, None], True]])),
        ("def f(): return {1: 'a', 'b': (2,)}", "f", CallCase([], [{"1": "a", "b": [2]}])),
        ("def f(): return 0.1 + 0.2", "f", CallCase([], [0.3])),
        ("def f(): return 10 ** 30", "f", CallCase([], [10**30])),
        ("def f(): return 'naïve 😀 \\n'", "f", CallCase([], ["naïve 😀 \n"])),
        ("def f(): print('noise'); return 1", "f", CallCase([], [1])),
        ("def f(): return 2", "f", CallCase([], [1, 2])),
        ("class T:\n    def tolist(self): return [1]\ndef f(): return T()", "f", CallCase([], [[1]])),
        ("f = lambda: 1\nif __name__ == '__main__':\n    input()", "f", CallCase([], [1])),
    ],
)
async def test_functions_are_called_and_compared_as_data(
    runner: CodeRunner, source: str, name: str, case: CallCase
) -> None:
    verdict = await runner.call_function(source, name, [case])
    assert (verdict.passed, verdict.detail) == (True, "")


def write_everywhere(line: str) -> str:
    """Return code that writes a line to every open file descriptor."""
    write = f"os.write(fd, {line!r}.encode() + bytes([10]))"
    return f"import os\nfor fd in range(1, 9):\n    try: {write}\n    except OSError: pass"


EQUAL_TO_ALL = """
class Everything:
    def __eq__(self, other): return True
    def __hash__(self): return 0
"""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(x): return x", Reason.WRONG_ANSWER),
        ("def f(x): return True", Reason.WRONG_ANSWER),
        ("def f(x): return '1'", Reason.WRONG_ANSWER),
        ("def f(x): return {1}", Reason.WRONG_ANSWER),
        ("def f(x): return float('nan')", Reason.WRONG_ANSWER),
        (f"{EQUAL_TO_ALL}\ndef f(x): return Everything()", Reason.NOT_PLAIN_DATA),
        (f"{EQUAL_TO_ALL}\ndef f(x): return [Everything()]", Reason.NOT_PLAIN_DATA),
        ("class I(int):\n    __eq__ = lambda self, other: True\ndef f(x): return I(7)", Reason.WRONG_ANSWER),
        ("def f(x):\n    a = []\n    a.append(a)\n    return a", Reason.RAISED),
        ("def g(x): return 1", Reason.UNDEFINED_FUNCTION),
        ("def f(): return 1", Reason.RAISED),
        ("def f(x): raise ValueError('no')", Reason.RAISED),
        ("class E(Exception):\n    def __str__(self): raise E\ndef f(x): raise E", Reason.RAISED),
        ("import os\ndef f(x): os._exit(0)", Reason.PROCESS_ENDED),
        ("import sys\ndef f(x): sys.exit(0)", Reason.RAISED),
        ("def f(x): return 'x' * 200_000", Reason.OUTPUT_EXCEEDED),
        ("def f(x):\n    while True: print('x' * 1000)", Reason.OUTPUT_EXCEEDED),
        ("raise SystemExit(0)", Reason.RAISED),
        (
            f"{write_everywhere('nonsense')}\ndef f(x): return 0",
            Reason.BROKEN_PROTOCOL,
        ),
    ],
)
async def test_functions_fail_for_a_reason(runner: CodeRunner, source: str, reason: Reason) -> None:
    verdict = await runner.call_function(source, "f", [CallCase([0], [1])], timeout_s=3)
    assert verdict.reason is reason


ADD_TESTS = """
def check(candidate):
    assert candidate(1, 2) == 3
    assert candidate([1], [2]) == [1, 2]
    assert candidate(a=(1,), b=(2,)) == (1, 2)
    try:
        candidate(1, None)
        assert False, "it must raise"
    except TypeError:
        pass
"""


async def check(runner: CodeRunner, source: str, tests: str = ADD_TESTS, **options: Any) -> CodeVerdict:
    return await runner.check(source, Checks(tests, "add", options.pop("context", "")), **options)


async def test_tests_call_the_candidate_from_another_sandbox(runner: CodeRunner) -> None:
    assert (await check(runner, "def add(a, b): return a + b")).passed


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("def add(a, b): return None", "AssertionError in `assert candidate(1, 2) == 3`"),
        (
            "def add(a, b): return a + b if b else 0",
            'AssertionError: it must raise in `assert False, "it must raise"`',
        ),
        ("def add(a, b): raise KeyError('x')", "KeyError: \"'x'\" in `assert candidate(1, 2) == 3`"),
        (
            "class Odd(Exception): pass\ndef add(a, b): raise Odd('x')",
            "CandidateError: Odd: x in `assert candidate(1, 2) == 3`",
        ),
    ],
)
async def test_a_failed_assertion_is_reported(runner: CodeRunner, source: str, detail: str) -> None:
    verdict = await check(runner, source)
    assert (verdict.reason, verdict.detail) == (Reason.TESTS_FAILED, detail)


async def test_plain_data_of_every_type_reaches_the_tests_unchanged(runner: CodeRunner) -> None:
    tests = """
def check(candidate):
    for value in (None, True, 1, 10 ** 40, -0.5, float("inf"), "é\\ud800", b"\\x00\\xff", (1, [2]), {1: {"a": (2,)}},
                  {1, 2}, frozenset("ab"), 1 + 2j, [], {}, ()):
        returned = candidate(value)
        assert returned == value and type(returned) is type(value), repr(value)
"""
    verdict = await check(runner, "def add(value): return value", tests)
    assert (verdict.passed, verdict.detail) == (True, "")


async def test_the_tests_can_use_helpers_of_the_prompt(runner: CodeRunner) -> None:
    tests = "def check(candidate):\n    assert add(3, 4) == double(3) + 1"
    context = "def double(x):\n    return 2 * x\ndef add(a, b):\n    '''The stub.'''"
    assert (await check(runner, "def add(a, b): return a + b", tests, context=context)).passed


async def test_random_tests_use_the_same_inputs_every_time(runner: CodeRunner) -> None:
    tests = "import random\ndef check(candidate):\n    assert candidate(random.random()) is None"
    source = "def add(x): raise ValueError(x)"
    details = {(await check(runner, source, tests)).detail for _ in range(2)}
    assert len(details) == 1


async def test_the_order_of_sets_is_the_same_in_every_run(runner: CodeRunner) -> None:
    ordered = "def f(): return list(set('abcdefgh')), hash('x')"
    program = "print(*set('abcdefgh'), hash('x'))"
    calls = [await runner.call_function(ordered, "f", [CallCase([], [0])]) for _ in range(2)]
    runs = [await runner.run_programs(program, [ProgramCase("", "")]) for _ in range(2)]
    for verdicts in (calls, runs):
        assert len({verdict.detail for verdict in verdicts}) == 1
        assert verdicts[0].reason is Reason.WRONG_ANSWER


async def test_the_chance_of_a_solution_is_its_own(runner: CodeRunner) -> None:
    drawn = "import random\ndef f(): return random.getrandbits(64)"
    verdicts = [await runner.call_function(drawn, "f", [CallCase([], [0])]) for _ in range(2)]
    assert len({verdict.detail for verdict in verdicts}) == 2


async def test_all_calls_share_the_time_limit_of_the_tests(runner: CodeRunner) -> None:
    tests = "def check(candidate):\n    for _ in range(1_000): candidate()"
    verdict = await check(runner, "import time\ndef add(): time.sleep(0.1)", tests, timeout_s=0.5)
    assert verdict.reason is Reason.BLOCKED
    spin = "import time\ndef add():\n    end = time.process_time() + 0.1\n    while time.process_time() < end: pass"
    assert (await check(runner, spin, tests, timeout_s=0.5)).reason is Reason.TIMED_OUT


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("def check(candidate:", "cannot be run"),
        ("def check(candidate):\n    candidate(object())", "builtins.object, which is not plain data"),
        ("def check(candidate):\n    candidate(lambda: 1)", "builtins.function, which is not plain data"),
    ],
)
async def test_broken_tests_are_an_error_of_the_task(runner: CodeRunner, tests: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        await check(runner, "def add(x): return x", tests)


UNIT_TESTS = """
import unittest
from unittest.mock import patch

class TestAdd(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(add(1, 2), 3)

    @patch("os.getpid", return_value=40)
    def test_patched(self, getpid):
        self.assertEqual(add(None, 2), 42)
        getpid.assert_called_once()
"""
ADD = "import os\ndef add(a, b):\n    return (os.getpid() if a is None else a) + b"


async def together(runner: CodeRunner, source: str, **options: Any) -> CodeVerdict:
    return await runner.check_together(source, Checks(UNIT_TESTS, "add"), **options)


async def test_unit_tests_run_beside_the_solution(runner: CodeRunner) -> None:
    verdict = await together(runner, ADD)
    assert (verdict.passed, verdict.detail) == (True, "")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def add(a, b): return a", Reason.TESTS_FAILED),
        ("def sub(a, b): return a", Reason.UNDEFINED_FUNCTION),
        ("def add(", Reason.DOES_NOT_COMPILE),
        ("import sys\ndef add(a, b): sys.exit(0)", Reason.TESTS_FAILED),
        ("import os\ndef add(a, b): os._exit(0)", Reason.PROCESS_ENDED),
        ("import os; os._exit(0)", Reason.PROCESS_ENDED),
        (f"{EQUAL_TO_ALL}\ndef add(a, b): return Everything()", Reason.TESTS_FAILED),
        (
            write_everywhere('{"verdict":"passed","proof":"x"}') + "\nos._exit(0)",
            Reason.BROKEN_PROTOCOL,
        ),
    ],
)
async def test_a_solution_beside_its_tests_cannot_exit_or_forge_a_verdict(
    runner: CodeRunner, source: str, reason: Reason
) -> None:
    assert (await together(runner, source, timeout_s=5)).reason is reason


async def test_asserts_can_run_beside_the_solution(runner: CodeRunner) -> None:
    code = Checks("class P:\n    x = 1\nassert add(P(), 2) == 3", "add")
    for source, passed in (("def add(p, b): return p.x + b", True), ("def add(p, b): return 0", False)):
        verdict = await runner.check_together(source, code, style=CheckStyle.ASSERTS)
        assert verdict.passed is passed


async def test_unit_tests_without_a_test_do_not_pass(runner: CodeRunner) -> None:
    verdict = await runner.check_together("def add(): pass", Checks("x = 1", "add"))
    assert (verdict.reason, verdict.detail) == (Reason.TESTS_FAILED, "AssertionError: no test ran")


async def test_concurrency_is_limited() -> None:
    runner = CodeRunner(max_concurrency=1)
    sleep = "import time\ndef f():\n    time.sleep(0.3)\n    return 1"
    start = time.monotonic()
    calls = (runner.call_function(sleep, "f", [CallCase([], [1])]) for _ in range(2))
    assert all(verdict.passed for verdict in await asyncio.gather(*calls))
    assert time.monotonic() - start > 0.6


async def test_tools_and_verdicts_share_the_places() -> None:
    runner = CodeRunner(max_concurrency=2)
    await runner.isolation()
    most, others = 0, set(children_of_this_process())

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(set(children_of_this_process()) - others))
            await asyncio.sleep(0.005)

    watching = asyncio.create_task(watch())
    spin = "import os, time\nfor _ in range(3): os.fork()\nwhile time.process_time() < 0.2: pass"
    tools = [asyncio.create_task(runner.run_in_folder(spin, {"a/b.txt": "x"})) for _ in range(8)]
    verdict = await runner.run_programs(
        "print(open('/proc/self/comm').read() != '')", [ProgramCase("", "True\n")]
    )
    done = await asyncio.gather(*tools)
    watching.cancel()
    assert verdict.passed, verdict
    assert [each.ending for each in done] == [Ending.EXITED] * 8
    assert 0 < most <= 2


def children_of_this_process() -> list[int]:
    threads = Path("/proc/self/task").iterdir()
    return [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]


async def test_a_tool_is_limited_by_its_own_time_and_sees_its_files(runner: CodeRunner) -> None:
    code = "print(open('folder/note').read())"
    done = await runner.run_in_folder(code, {"folder/note": "hello"})
    assert (done.stdout, done.ending) == (b"hello\n", Ending.EXITED)
    endless = await runner.run_in_folder("while True: pass", {}, timeout_s=0.3)
    assert endless.ending is Ending.TIMED_OUT
    asleep = await runner.run_in_folder("import time; time.sleep(1000)", {}, timeout_s=0.1)
    assert asleep.ending is Ending.BLOCKED
    with pytest.raises(OSError):
        await runner.run_in_folder("", {"a": "", "a/b": ""})


async def test_solutions_cannot_import_the_packages_of_the_gym(runner: CodeRunner) -> None:
    verdict = await runner.call_function("import pydantic\ndef f(): return 1", "f", [CallCase([], [1])])
    assert verdict.detail == "ModuleNotFoundError: No module named 'pydantic'"


async def test_a_long_answer_is_read_in_a_worker(runner: CodeRunner) -> None:
    pool = default_pool()
    before = pool.stats.completed
    numbers = list(range(10_000))
    source = "def f(): return list(range(10_000))"
    assert (await runner.call_function(source, "f", [CallCase([], [numbers])])).passed
    assert (await runner.call_function(source, "f", [CallCase([], [[1]])])).reason is Reason.WRONG_ANSWER
    assert pool.stats.completed == before + 2


async def test_a_large_answer_to_the_tests_counts_for_nothing_in_the_gym(runner: CodeRunner) -> None:
    tests = "def check(candidate):\n    assert candidate() == list(range(10_000))"
    assert (await check(runner, "def add(): return list(range(10_000))", tests)).passed


@pytest.mark.parametrize(
    ("source", "tests"),
    [
        ("from unittest import mock\ndef add(): return mock.ANY", "assert add() != 1"),
        ("def add(): return object()", "assert add()"),
        ("def add(): return lambda: 1", "try:\n    add()\nexcept Exception:\n    pass"),
    ],
)
async def test_tests_cannot_pass_with_an_answer_that_is_not_plain_data(
    runner: CodeRunner, source: str, tests: str
) -> None:
    assert (await check(runner, source, tests)).reason is Reason.NOT_PLAIN_DATA


async def test_an_answer_that_ends_the_tests_scores_0(runner: CodeRunner) -> None:
    tests = "import os\ndef check(candidate):\n    if candidate() == 1: os._exit(3)"
    verdict = await check(runner, "def add(): return 1", tests)
    assert (verdict.reason, verdict.detail) == (Reason.TESTS_FAILED, "the tests ended: process_ended")
    with pytest.raises(VerifierError, match="died in their sandbox"):
        await check(runner, "def add(): return 1", "import os\nos._exit(3)")


async def test_sleep_is_not_mistaken_for_computation(runner: CodeRunner) -> None:
    sleep = "import time\ndef f(): time.sleep(100)"
    verdict = await runner.call_function(sleep, "f", [CallCase([], [1])], timeout_s=0.3)
    assert verdict.reason is Reason.BLOCKED
    nap = "import time\ndef f():\n    time.sleep(0.5)\n    return 1"
    assert (await runner.call_function(nap, "f", [CallCase([], [1])], timeout_s=0.3)).passed


async def test_a_verdict_beside_the_tests_is_tamperable(runner: CodeRunner) -> None:
    assert (await together(runner, ADD)).tamperable
    assert not (await check(runner, "def add(a, b): return a + b")).tamperable


async def test_a_kill_by_the_kernel_is_the_memory_limit_before_the_gym_looks(
    runner: CodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = memory.make_memory_group(1 << 30)
    if group is None:
        pytest.skip("this machine lets no group of processes be limited")
    group.remove()
    monkeypatch.setattr(process, "_WATCH_INTERVAL_S", 60.0)
    many = "import os\nfor _ in range(4): os.fork()\nhold = bytearray(200 << 20)\nimport time\ntime.sleep(1)"
    verdict = await runner.run_programs(many, SQUARE)
    assert verdict.reason is Reason.MEMORY_EXCEEDED
