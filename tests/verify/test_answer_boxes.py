"""Boxes, and the text after them."""

from __future__ import annotations

import pytest

from nemo_gym.verify.answer_boxes import cut_at_closing_brace, find_box, last_boxed, write_braces


def test_a_box_is_found_with_the_text_after_it() -> None:
    found = find_box(r"So \boxed{1}, no: $\boxed{7}$. Check: 3+4=7.")
    assert found is not None
    assert (found.answer, found.rest) == ("7", "$. Check: 3+4=7.")
    assert find_box("no box") is None


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"So \boxed 5.", "5"),
        (r"$\boxed 12$", "12"),
        (r"\boxed -3.5", "-3.5"),
        (r"\fbox B", "B"),
        (r"\boxed {7}", "7"),
        (r"\boxed text", None),
        (r"\boxed", None),
    ],
)
def test_a_box_without_braces_gets_them_around_a_number_or_a_letter(text: str, boxed: str | None) -> None:
    assert last_boxed(write_braces(text)) == boxed


def test_a_text_is_cut_at_the_brace_that_closes_one_before_it() -> None:
    assert cut_at_closing_brace("42} and more") == "42"
    assert cut_at_closing_brace(r"\frac{1}{2}") == r"\frac{1}{2}"


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"\boxed{1} \boxed{2}", "2"),
        (r"\boxed{1}\ \boxed{2}\ \boxed{3}", "1 , 2 , 3"),
        (r"$\boxed{1}$ $\boxed{1}$", "1"),
        (r"$\boxed{1}$\quad$\boxed{2}$ $\boxed{3}$", "1 , 2 , 3"),
        ("\\boxed{1}\n\\boxed{2}", "2"),
        (r"\boxed{1} so \boxed{2}", "2"),
    ],
)
def test_three_boxes_side_by_side_are_one_answer(text: str, boxed: str) -> None:
    assert last_boxed(text) == boxed
