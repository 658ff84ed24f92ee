"""Find answers that win tasks without knowing them: a verifier that can be won so rewards nothing else.

    lucky = find_lucky_answers(tasks, SHORT_ANSWERS, score)                          # whatever the task says
    lucky = find_lucky_answers(tasks, (), score, [make_answers(text) for text in questions])  # made from its question

An answer to a task is lucky if it scores without being the task's own answer. How often the tasks' own answers are
`True` or `0` does not matter then: a policy that guesses among them is not lucky.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

TaskT = TypeVar("TaskT")

LEAST_SHARE = 0.2
"""The share of tasks to which a recipe must make an answer."""

_NUMBERS = """
0 0.0 -0 0.00 0e0 00 .0 0. 1 1.0 -1 2 3 4 5 6 7 8 9 10 100 0.5 1/2 0/1 1/0 0/0 1e-999 -1e-999 1e-99 1e99 1e999 -1e999
1e308 1e-5 0x0 0b1 1_0 nan -nan NaN nanj nan+nanj inf -inf infinity +inf infj 0j 1j 1+0j i j e pi 1% 0% $0 ٠ ０ ½ ∞ √2
"""
_WORDS = """
True False true false TRUE yes no Yes No None none null NULL undefined unknown answer solution error empty nothing all
both neither correct wrong right left up down and or not if the a an is it x y z A B C D E X Y P Q p q n k knight knave
infeasible impossible possible stable None. [] () {} [[]] [()] {{}} [0] [1] [0,0] [[0]] [None] {"a":1} (0,0) (,) <> ""
'' . , ; : ! ? - -- _ + * / \\ | & ^ % # @ ~ ` = == != < > ... \\n \\t \\x00 \\boxed{} $$ ```  <answer> </answer>
0,0 0;0 0|0 a,b 1,2,3 -> => :- \\d .* .+ ^ $ % %s {} {0} %d \\0 0=0 1=1 x=x x=0 x+0 x-x 0*x x**0 C x+C 0+C oo zoo I O S
🙂 é ß İ
"""
SHORT_ANSWERS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            "",
            " ",
            "\n",
            *(word.replace("\\n", "\n").replace("\\t", "\t") for word in (_NUMBERS + _WORDS).split()),
            *string.ascii_lowercase,
            *string.ascii_uppercase,
            *string.punctuation,
            "True False",
            "yes no",
            "A B C D",
            " ".join(string.digits),
            string.ascii_lowercase,
            "0 0",
            "1 2 3",
            "a b",
            "no solution",
            "not possible",
            "I do not know.",
            "The answer is",
            "0\n0",
            "0 " * 50,
            "[" + ",".join(["[" + ",".join("0" * 60) + "]"] * 60) + "]",
            "\n".join([" ".join("0" * 30)] * 30),
            "4*6*1*1",
            "4*3*2*1",
            "x/x",
            "12 * 2 * 1 * 1",
            "P ∨ ¬P",
            "P → P",
            "¬P ∨ Q",
            "P ∨ Q",
            "P ∧ Q",
            "P ↔ Q",
            "06:00",
            "06:00:00",
            "06:00:00.000",
            "0 days, 12:00",
            "10 days, 12:00",
            "10 days, 12:00:00",
            "30 days",
            "[" * 50,
            "1" * 50,
        ]
    )
)
"""Answers that no task asks for, or that stand for many: numbers at the edge, empty forms, prefixes, letters, words."""


@dataclass(frozen=True, slots=True)
class LuckyAnswer:
    """An answer and its scores at the tasks whose own answer it is not."""

    answer: str
    """The constant answer, or the name of the recipe by which it was made from each question."""
    tasks: int
    won: int
    """Tasks with a full score."""
    mean: float
    """The mean score, partial credit included."""


def find_lucky_answers(
    tasks: Sequence[tuple[TaskT, str | None]],
    answers: Iterable[str],
    score: Callable[[TaskT, str], float],
    made: Sequence[Mapping[str, str]] = (),
    *,
    won_share: float = 0.1,
    mean: float = 0.3,
) -> list[LuckyAnswer]:
    """Return the answers that win more than `won_share` of the tasks, or have a higher mean score than `mean`.

    A mean must also be above that of the best honest guess, the most common own answer. Each task comes with its own
    answer; None if it has many. `made` has the answers that are made from each task, by their recipe
    (`made_answers`); a recipe counts where it makes an answer to at least a fifth of the tasks. The best answers come
    first.
    """
    found = []
    own_answers = Counter(own for _, own in tasks if own is not None)
    mean = max(mean, max(own_answers.values(), default=0) / len(tasks))
    guesses: list[tuple[str, list[str | None]]] = [(answer, [answer] * len(tasks)) for answer in answers]
    guesses += [
        (recipe, [answers_to_one.get(recipe) for answers_to_one in made])
        for recipe in dict.fromkeys(recipe for answers_to_one in made for recipe in answers_to_one)
    ]
    for name, texts in guesses:
        scores = [
            score(task, text)
            for (task, own), text in zip(tasks, texts, strict=True)
            if text is not None and (own is None or not is_same_answer(own, text))
        ]
        is_rare = None in texts and len(scores) < LEAST_SHARE * len(tasks)
        if is_rare or not scores:
            continue
        won = sum(value >= 0.99 for value in scores)
        lucky = LuckyAnswer(name, len(scores), won, math.fsum(scores) / len(scores))
        if won > max(1, won_share * len(scores)) or lucky.mean > mean:
            found.append(lucky)
    return sorted(found, key=lambda lucky: (-lucky.mean, lucky.answer))


_MARKS = string.whitespace + string.punctuation.replace("-", "").replace("+", "")


def is_same_answer(own: str, answer: str) -> bool:
    """Return whether two short answers are spellings of one: case, spaces, marks, the form of a number and of an
    article aside."""
    left, right = _plain(own), _plain(answer)
    return left == right or _number(left) == _number(right) is not None


def _plain(answer: str) -> str:
    answer = re.sub(r"\ban\b", "a", answer.casefold())
    return "".join(char for char in answer if char not in _MARKS or char == ".").strip(".") or ""


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
