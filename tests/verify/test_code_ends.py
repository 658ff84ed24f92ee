"""Exceptions of a solution end neither the iterations nor the tests around it; those that tests expect arrive."""

from __future__ import annotations

import pytest

from nemo_gym.failures import InputError
from nemo_gym.verify._code_verdicts import Reason
from nemo_gym.verify.code_execution import Checks, CheckStyle, CodeRunner, CodeVerdict


@pytest.fixture
def runner() -> CodeRunner:
    return CodeRunner(max_concurrency=2)


async def check(runner: CodeRunner, source: str, tests: str) -> CodeVerdict:
    return await runner.check(source, Checks(tests, "add"))


ENDS = (
    "StopIteration",
    "StopAsyncIteration",
    "GeneratorExit",
    "KeyboardInterrupt",
    "SystemExit",
    "__import__('asyncio').CancelledError",
    "__import__('unittest').SkipTest",
    "type('Own', (StopIteration,), {})",
)
"""Exceptions that end an iteration, a program or a test without an error."""
ITERATING = {
    "map": "assert list(map(candidate, [1, 2])) == [] or True",
    "zip": "for x, y in zip(map(candidate, [1, 2]), [1, 2]): assert x == y",
    "all": "assert all(x == 1 for x in map(candidate, [1, 2]))",
    "filter": "assert not list(filter(candidate, [1, 2]))",
    "a default": "assert next(map(candidate, [1]), 1) == 1",
    "a sentinel": "for x in iter(lambda: candidate(1), 1): assert False",
    "an iterator": "class I:\n        __iter__ = lambda self: self\n        __next__ = lambda self: candidate(1)\n"
    "    assert list(I()) == []",
    "a generator": "assert all(candidate(x) == x for x in [1, 2])",
}
"""Tests that a function which ends their iteration would pass."""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", ["separate", "together"])
async def test_a_solution_cannot_end_the_iterations_of_its_tests(
    runner: CodeRunner, end: str, place: str
) -> None:
    source = f"def add(x): raise {end}"
    for test in ITERATING.values():
        tests = f"def check(candidate):\n    {test}"
        if place == "separate":
            verdict = await check(runner, source, tests)
        else:
            code = Checks(tests, "add")
            verdict = await runner.check_together(source, code, style=CheckStyle.ASSERTS)
        assert verdict.reason is Reason.TESTS_FAILED, test


@pytest.mark.parametrize("place", ["separate", "together"])
@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        ("ValueError('x')", "ValueError"),
        ("ZeroDivisionError", "ArithmeticError"),
        ("KeyError('x')", "(KeyError, IndexError)"),
        ("StopIteration", "StopIteration"),
        ("StopIteration", "Exception"),
        ("SystemExit(2)", "SystemExit"),
        ("SystemExit(2)", "BaseException"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
async def test_tests_can_expect_an_exception(
    runner: CodeRunner, raised: str, expected: str, place: str
) -> None:
    tests = (
        "import unittest\ndef check(candidate):\n    case = unittest.TestCase()\n"
        f"    case.assertRaises({expected}, candidate, 1)\n"
        f"    with case.assertRaises({expected}): candidate(2)\n"
        f"    try: candidate(3)\n    except {expected}: pass\n    else: assert False"
    )
    code = Checks(tests, "add")
    if place == "separate":
        verdict = await runner.check(f"def add(x): raise {raised}", code)
    else:
        verdict = await runner.check_together(f"def add(x): raise {raised}", code, style=CheckStyle.ASSERTS)
    assert (verdict.passed, verdict.detail) == (True, "")


@pytest.mark.parametrize(
    "tests",
    [
        "def test_sum():\n    assert add(1, 2) == 3",
        "async def check(candidate):\n    assert candidate(1, 2) == 3",
        "def check(candidate):\n    yield candidate(1, 2) == 3",
        "def check(candidate):\n    pass",
        "",
    ],
)
async def test_tests_that_never_call_the_solution_are_an_error_of_the_task(
    runner: CodeRunner, tests: str
) -> None:
    with pytest.raises(InputError, match="pass without a call of add"):
        await check(runner, "def add(a, b): return 0", tests)


CASE = "import unittest\nclass T(unittest.TestCase):\n    {0}def test(self): self.assertEqual(add(1), 1)"
BESIDE = "\nclass Beside(unittest.TestCase):\n    def test(self): self.assertEqual(add(1), 1)"


@pytest.mark.parametrize(
    "source",
    [
        "import unittest\ndef add(x): raise unittest.SkipTest",
        "import unittest\nclass Own(unittest.SkipTest): pass\ndef add(x): raise Own('x')",
        "import unittest.case\ndef add(x): raise unittest.case._ShouldStop",
        "import unittest\nunittest.TestCase.__unittest_skip__ = True\ndef add(x): return 0",
        "import unittest\nunittest.TestCase.__unittest_expecting_failure__ = True\ndef add(x): return 0",
        "import unittest\nclass V:\n    def __eq__(self, other): raise unittest.SkipTest\ndef add(x): return V()",
        "import unittest\ndef setUpModule(): raise unittest.SkipTest\ndef add(x): return 0",
        "import unittest\nclass add:\n    def __new__(cls, x): raise unittest.SkipTest",
        "import unittest\nasync def f(): raise unittest.SkipTest\ndef add(x):\n    f().send(None)",
        "import sys\ndef add(x): sys._getframe(2).f_locals['self'].skipTest('x')",
    ],
)
async def test_a_solution_cannot_skip_its_tests(runner: CodeRunner, source: str) -> None:
    verdict = await runner.check_together(source, Checks(CASE.format(""), "add"))
    assert verdict.reason is Reason.TESTS_FAILED


@pytest.mark.parametrize(
    ("tests", "passed"),
    [
        (CASE.format("@unittest.skip('no')\n    ") + BESIDE, True),
        (CASE.format("@unittest.skipIf(True, 'no')\n    ") + BESIDE, True),
        (CASE.format("@unittest.skipUnless(False, 'no')\n    ") + BESIDE, True),
        (CASE.format("@unittest.skip('no')\n    "), False),
        (CASE.format("@unittest.expectedFailure\n    "), False),
        (
            CASE.format("")
            + "\n    @unittest.expectedFailure\n    def test_2(self): self.assertEqual(add(1), 2)",
            True,
        ),
        (CASE.format("") + "\n    def test_2(self):\n        self.skipTest('no')", True),
        (
            CASE.format("")
            + "\n    def test_2(self):\n        with self.subTest(): self.assertEqual(add(2), 2)",
            True,
        ),
        (
            CASE.format("")
            .replace("unittest.TestCase", "unittest.IsolatedAsyncioTestCase")
            .replace("def test", "async def test"),
            True,
        ),
    ],
)
async def test_tests_may_skip_some_of_themselves(runner: CodeRunner, tests: str, passed: bool) -> None:
    verdict = await runner.check_together("def add(x): return x", Checks(tests, "add"))
    assert verdict.passed is passed, verdict.detail


COUNTDOWN = """
class add:
    def __init__(self, n): self.n = n
    def __{iter}__(self): return self
    {define} __{next}__(self):
        if not self.n: raise {end}
        self.n -= 1
        return self.n
"""


@pytest.mark.parametrize(
    ("source", "test"),
    [
        (
            COUNTDOWN.format(iter="iter", next="next", define="def", end="StopIteration"),
            "list(add(3)) == [2, 1, 0]",
        ),
        (
            COUNTDOWN.format(iter="aiter", next="anext", define="async def", end="StopAsyncIteration"),
            "asyncio.run(collect(add(3))) == [2, 1, 0]",
        ),
        ("import asyncio\nasync def add(n): await asyncio.sleep(60)", "asyncio.run(cancel(add(1))) is None"),
    ],
)
async def test_a_solution_may_end_its_own_iterations(runner: CodeRunner, source: str, test: str) -> None:
    tests = (
        "import asyncio\nasync def collect(values): return [value async for value in values]\n"
        "async def cancel(waiting):\n    async with asyncio.TaskGroup() as group:\n"
        "        task = group.create_task(waiting)\n        await asyncio.sleep(0)\n        task.cancel()\n"
        f"def check(_):\n    assert {test}"
    )
    verdict = await runner.check_together(source, Checks(tests, "add"), style=CheckStyle.ASSERTS)
    assert (verdict.passed, verdict.detail) == (True, "")
