"""Answers that are made from the text of a question."""

from __future__ import annotations

import json

import pytest

from nemo_gym.verify.made_answers import make_answers

QUESTION = """Which word is it? (Format your answer like: "Zoe is a hero/villain")
1. (P → Q)
.2. ¬Q
Use 12, 5 and 'tea' between 06:30 and 07:15.

_ 1 _ 2
2 _ 1 _

[[0,1],
 [1,1]]
Go from COLD to WARM: now"""


@pytest.mark.parametrize(
    ("recipe", "answer"),
    [
        ("question", QUESTION),
        ("after the colon", "now"),
        ("line 1", "1. (P → Q)"),
        ("paragraph 1", "_ 1 _ 2\n2 _ 1 _"),
        ("item 0", "(P → Q)"),
        ("item -1", "¬Q"),
        ("all items", "((P → Q)) ∧ (¬Q)"),
        ("number 2", "5"),
        ("1 × {} of number 0", "1 × 1"),
        ("quotation 1", "tea"),
        ("choice 1 in quotation 0", "Zoe is a hero"),
        ("choice 2 in quotation 0", "Zoe is a villain"),
        ("brackets 1", "(P → Q)"),
        ("in brackets 1", "P → Q"),
        ("time 0", "06:30"),
        ("board", "_ 1 _ 2\n2 _ 1 _"),
        ("board with 7 for blanks", "7 1 7 2\n2 7 1 7"),
        ("board of 0", "0 0 0 0\n0 0 0 0"),
        ("arrays", "[[0, 1], [1, 1]]"),
        ("arrays of 0", "[[0, 0], [0, 0]]"),
        ("letter by letter", "COLD,WOLD,WALD,WARD,WARM"),
        ("word -1", "now"),
    ],
)
def test_parts_of_a_question_are_copied_joined_and_emptied(recipe: str, answer: str) -> None:
    assert make_answers(QUESTION)[recipe] == answer


def test_a_number_is_written_without_the_numbers_that_are_given() -> None:
    made = make_answers("Make 24 using 4, 8, 6, 2.")
    assert made["number 0 times 1"] == "24*1*1*1"
    assert made["number 0 of x/x, 4 others times 0"] == "(4+8+6+2)*(x-x)+" + "+".join(["x/x"] * 24)
    assert json.loads(made["list of numbers"]) == [24, 4, 8, 6, 2]


@pytest.mark.parametrize(
    "question", ["", "?", "x" * 10_000, "[[" * 1_000, "1 " * 5_000, "(" * 5_000, "'\"" * 999]
)
def test_any_text_gives_answers(question: str) -> None:
    assert make_answers(question)["question"] == question
