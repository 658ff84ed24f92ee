import asyncio
from collections.abc import Iterator

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.verify.math_equality import MAX_ANSWER_DEPTH, compare_plainly, is_equal, is_prose

TIMEOUT_S = 60.0
SURDS = r"\frac{(3-\sqrt{3})(2-\sqrt{3})^{2016}+(3+\sqrt{3})(2+\sqrt{3})^{2016}}{6}"
SURDS_REORDERED = r"\frac{(3+\sqrt{3})(2+\sqrt{3})^{2016}+(3-\sqrt{3})(2-\sqrt{3})^{2016}}{6}"


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """One worker for the module, because importing sympy takes seconds."""
    pool = WorkerPool(1)
    yield pool
    asyncio.run(pool.close())


@pytest.mark.parametrize(
    ("expected", "answer", "verdict"),
    [
        ("70000", "70,000", True),
        ("$18$", "18 dollars", True),
        ("18", "26", False),
        ("x + 1", "x+1", True),
        ("x+1", "1+x", None),
        (r"\text{no solution}", "No solution.", True),
        ("east", "seat", False),
        ("3", r"\text{three}", False),
        ("", "2", False),
        ("2", "", False),
        ("3", "(" * 1000 + "3" + ")" * 1000, False),
        ("3", "1+" * 2000 + "1", False),
        ("3", "(" * MAX_ANSWER_DEPTH + "3" + ")" * MAX_ANSWER_DEPTH, None),
    ],
)
def test_most_pairs_need_no_parser(expected: str, answer: str, verdict: bool | None) -> None:
    assert compare_plainly(expected, answer) is verdict


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("no solution", True),
        (r"\text{no solution}", True),
        ("west", True),
        (r"5\text{ meters}", False),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", False),
        (r"\arctan(x) + sqrt(2)", False),
        ("x = 3 and y = 4", False),
        ("xyz", False),
    ],
)
def test_prose_and_formulas_are_distinguished(text: str, prose: bool) -> None:
    assert is_prose(text) is prose


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (r"\frac{1}{2}", "0.5"),
        ("x^2+2x+1", "(x+1)^2"),
        (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5+2\sqrt{6}}"),
        (r"\{2, 3\}", "3, 2"),
        (r"(-\infty, 3)", "x < 3"),
        ("3", "x = 3"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4.0\end{pmatrix}"),
        ("-1", r"e^{i\pi}"),
        ("2i", r"2\cdot i"),
        (r"\frac{n(n+1)}{2}", r"\sum_{k=1}^n k"),
        (r"3\ln 2", r"\ln 8"),
        (r"\pm 2", "-2, 2"),
        (r"\sqrt{2}", "1.414214"),
        (SURDS, SURDS_REORDERED),
    ],
)
async def test_equal_answers(pool: WorkerPool, expected: str, answer: str) -> None:
    assert await is_equal(expected, answer, timeout_s=TIMEOUT_S, pool=pool)


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ("3", "3 or 4"),
        ("3", "3, 4"),
        ("3", r"\{3, 4\}"),
        ("3", "[3, 4]"),
        ("3", "x > 2"),
        ("3", r"3\text{ but maybe }4"),
        ("3", "3x"),
        ("x+1", "x-1"),
        ("(1,2)", "(2,1)"),
        (r"\sqrt{2}", "1.4142"),
        (r"\sqrt{x^2}", "x"),
        ("|x-100|", "100-x"),
        (r"\{2, 3\}", "2"),
        ("3", r"\frac{"),
        (SURDS, "2^{2016}"),
    ],
)
async def test_different_answers(pool: WorkerPool, expected: str, answer: str) -> None:
    assert not await is_equal(expected, answer, timeout_s=TIMEOUT_S, pool=pool)


@pytest.mark.parametrize(
    "answer",
    ["9^{9^9}", "(10^9)!", r"\binom{10^9}{5\cdot 10^8}", "(x+1)^{5000}", r"\int_0^1 e^{x^2}\sin(x^3) dx"],
)
async def test_costly_formulas_are_refuted_by_their_value(pool: WorkerPool, answer: str) -> None:
    killed = pool.stats.killed
    assert not await is_equal("3", answer, timeout_s=TIMEOUT_S, pool=pool)
    assert pool.stats.killed == killed


async def test_an_endless_comparison_is_a_failure_and_not_a_verdict(pool: WorkerPool) -> None:
    with pytest.raises(VerifierError) as caught:
        await is_equal("3", "9^{9^{9^9}}", timeout_s=1.0, pool=pool)
    assert caught.value.failure.code == "verifier_timeout"
    assert await is_equal("x+1", "1+x", timeout_s=TIMEOUT_S, pool=pool)
