import asyncio
from collections.abc import Iterator

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.processes.workers import WorkerPool
from resources_servers.math_with_judge.math_equality import (
    MAX_ANSWER_DEPTH,
    Equality,
    Rejection,
    compare,
    compare_plainly,
    compare_structures,
    is_equal,
)
from resources_servers.math_with_judge.tests.awkward_math_cases import awkward_cases
from resources_servers.math_with_judge.tests.math_cases import Case, all_cases
from tests.samples import one_in

pytestmark = pytest.mark.long_file

TIMEOUT_S = 60.0
SURDS = r"\frac{(3-\sqrt{3})(2-\sqrt{3})^{2016}+(3+\sqrt{3})(2+\sqrt{3})^{2016}}{6}"
SURDS_REORDERED = r"\frac{(3+\sqrt{3})(2+\sqrt{3})^{2016}+(3-\sqrt{3})(2-\sqrt{3})^{2016}}{6}"
ENDLESS = r"\int_0^{1000} \sin(e^{x^2}) \cos(x^3) e^{\sin x} dx"
WRONG = Equality(False, Rejection.DIFFERENT)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """One worker for the module, because importing sympy takes seconds."""
    pool = WorkerPool(1)
    yield pool
    asyncio.run(pool.close())


def verdict_on(expected: str, answer: str) -> str:
    verdict = compare_plainly(expected, answer) or compare_structures(expected, answer)
    return "equal" if verdict.is_equal else str(verdict.reason)


@pytest.mark.parametrize("case", one_in(4, all_cases()), ids=lambda case: f"{case.one} | {case.other}")
def test_the_verdict_on_each_case_holds_in_both_orders(case: Case) -> None:
    verdicts = (verdict_on(case.one, case.other), verdict_on(case.other, case.one))
    assert verdicts == (case.verdict, case.verdict), case.reason


@pytest.mark.parametrize("case", one_in(4, awkward_cases()), ids=lambda case: f"{case.one} | {case.other}")
def test_an_awkward_answer_is_accepted_in_both_orders_or_in_none(case: Case) -> None:
    verdicts = (verdict_on(case.one, case.other), verdict_on(case.other, case.one))
    assert [verdict == "equal" for verdict in verdicts] == [case.verdict == "equal"] * 2, case.reason


def test_no_case_occurs_twice() -> None:
    cases = [(case.one, case.other) for case in (*all_cases(), *awkward_cases())]
    assert len(set(cases)) == len(cases)


@pytest.mark.parametrize(
    ("expected", "answer", "verdict"),
    [
        ("70000", "70,000", Equality(True)),
        ("$18$", "18 dollars", Equality(True)),
        ("18", "26", WRONG),
        ("x + 1", "x+1", Equality(True)),
        ("x+1", "1+x", None),
        ("", "2", Equality(False, Rejection.NO_ANSWER)),
        ("2", "", Equality(False, Rejection.NO_ANSWER)),
        ("3", "(" * 1000 + "3" + ")" * 1000, Equality(False, Rejection.TOO_LONG)),
        ("3", "1+" * 2000 + "1", Equality(False, Rejection.TOO_LONG)),
        ("3", "(" * MAX_ANSWER_DEPTH + "3" + ")" * MAX_ANSWER_DEPTH, None),
    ],
)
def test_most_pairs_need_no_parser(expected: str, answer: str, verdict: Equality | None) -> None:
    assert compare_plainly(expected, answer) == verdict


async def test_formulas_are_compared_in_a_worker(pool: WorkerPool) -> None:
    assert await is_equal(SURDS, SURDS_REORDERED, timeout_s=TIMEOUT_S, pool=pool)
    assert await compare(SURDS, "2^{2016}", timeout_s=TIMEOUT_S, pool=pool) == WRONG


@pytest.mark.parametrize(
    "answer",
    ["9^{9^9}", "(10^9)!", r"\binom{10^9}{5\cdot 10^8}", "(x+1)^{5000}", r"\int_0^1 e^{x^2}\sin(x^3) dx",
     "9^{9^{9^9}}", "9^{9^9}-1", "10^{100000}+1", r"10^{22} \mod 7", "9" * 1999,
     "\ud800", "\0", "(" * 10 + "x" + ")" * 10,
     r"\sum_{k=1}^{10^9} \frac{1}{k}", "\\" * 500, "{" * 9 + "}" * 9, "1=" * 500 + "1", "1," * 900],
)  # fmt: skip
async def test_a_costly_or_broken_formula_is_not_accepted(pool: WorkerPool, answer: str) -> None:
    verdict = await compare("3", answer, timeout_s=5.0, pool=pool)
    assert not verdict.is_equal
    assert verdict.reason


async def test_an_answer_that_computes_beyond_the_limit_is_not_accepted(pool: WorkerPool) -> None:
    verdict = await compare("3", ENDLESS, timeout_s=2.0, pool=pool)
    assert verdict == Equality(False, "cpu_time")
    assert await is_equal("x+1", "1+x", timeout_s=TIMEOUT_S, pool=pool)


async def test_an_expected_answer_that_is_too_costly_is_a_failure(pool: WorkerPool) -> None:
    with pytest.raises(VerifierError) as caught:
        await compare(ENDLESS, "3", timeout_s=2.0, pool=pool)
    assert caught.value.failure.code == "verifier_timeout"
