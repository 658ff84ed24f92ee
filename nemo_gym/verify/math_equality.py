r"""Equality of mathematical answers.

`is_equal` decides in three steps, the cheap ones on the event loop:

    same text, or both are quantities     `70,000` and `\$70000`               microseconds
    words                                 `no solution`                        microseconds
    formulas (`nemo_gym.verify._formulas`) `\frac{x^2-1}{x-1}` and `x+1`        in a worker, milliseconds

The verdict is the same on every call and every machine. Only the deadline depends on the machine, and an expired
deadline is a `VerifierError`, never a verdict.
"""

from __future__ import annotations

import re

from nemo_gym.processes.workers import WorkerPool, default_pool
from nemo_gym.verify._formulas import is_same_formula
from nemo_gym.verify.answers import strip_math_marks
from nemo_gym.verify.matching import is_same_text
from nemo_gym.verify.numbers import is_same_quantity, read_quantity

TIMEOUT_S = 10.0
IMPORTS = ("math_verify",)

MAX_ANSWER_CHARS = 2_000
MAX_ANSWER_DEPTH = 10
"""An answer that is longer or nested deeper equals only the same text, unless the expected answer exceeds the limit
too: the time to parse a formula grows exponentially with its depth."""


async def is_equal(
    expected: str, answer: str, *, timeout_s: float = TIMEOUT_S, pool: WorkerPool | None = None
) -> bool:
    """Return whether `answer` is mathematically equal to `expected`. Raises VerifierError as `WorkerPool.run` does."""
    verdict = compare_plainly(expected, answer)
    if verdict is not None:
        return verdict
    pool = pool or default_pool()
    return await pool.run(is_same_formula, expected, answer, timeout_s=timeout_s, imports=IMPORTS)


def compare_plainly(expected: str, answer: str) -> bool | None:
    """Return the verdict when neither text has to be parsed as a formula, else None."""
    expected, answer = strip_math_marks(expected), strip_math_marks(answer)
    if not expected or not answer:
        return False
    if "".join(expected.split()) == "".join(answer.split()):
        return True
    wanted, given = read_quantity(expected), read_quantity(answer)
    if wanted is not None and given is not None:
        return is_same_quantity(wanted, given)
    if is_prose(expected) or is_prose(answer):
        return is_same_text(_unwrap_text(expected), _unwrap_text(answer))
    if len(answer) > max(MAX_ANSWER_CHARS, len(expected)):
        return False
    return None if _depth(answer) <= max(MAX_ANSWER_DEPTH, _depth(expected)) else False


_TEXT_BLOCK = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\(?:begin|end)\s*\{[a-zA-Z*]+\}|\\[a-zA-Z]+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_FUNCTION_NAMES = frozenset({"sqrt", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan"})


def is_prose(text: str) -> bool:
    r"""Return whether `text` holds words. As a formula they would be products of letters, where "east" equals "seat".

    A word has at least four letters; function names and LaTeX commands do not count. Words in `\text{…}` count only
    when the text has nothing else: beside a formula they are a unit or a conjunction.
    """
    beside_text = _TEXT_BLOCK.sub(" ", text)
    formula = _COMMAND.sub(" ", beside_text if re.search(r"\w", beside_text) else _unwrap_text(text))
    return any(word not in _FUNCTION_NAMES for word in _WORD.findall(formula))


def _unwrap_text(text: str) -> str:
    return _TEXT_BLOCK.sub(r"\1", text)


def _depth(text: str) -> int:
    deepest = depth = 0
    for char in text:
        if char in "{([":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "})]":
            depth -= 1
    return deepest
