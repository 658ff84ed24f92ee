"""The structure of a mathematical answer."""

from __future__ import annotations

import pytest

from resources_servers.math_with_judge.math_answers import (
    MAX_MEMBERS,
    Claims,
    Collection,
    Labelled,
    Numeral,
    Relation,
    Rounded,
    Unstructured,
    Value,
    read_answer,
)
from resources_servers.math_with_judge.math_words import Words


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("5", Value),
        ("5 km", Value),
        (r"\frac{1}{2}", Value),
        ("east", Words),
        ("101_2", Numeral),
        ("(1, 2)", Collection),
        (r"\{1, 2\}", Collection),
        ("x = 5", Labelled),
        ("1 + 1 = 2", Claims),
        (r"\neq 5", Relation),
        ("m+n = 25", Relation),
        (r"\frac{1}{3} \approx 0.333", Rounded),
    ],
)
def test_the_structure_of_an_answer_is_read(text: str, kind: type) -> None:
    assert isinstance(read_answer(text), kind)


def test_a_numeral_has_the_value_of_its_base() -> None:
    assert read_answer("101_2") == Numeral(5, 2)


def test_a_pair_has_an_order_and_a_set_has_none() -> None:
    pair, members = read_answer("(1, 2)"), read_answer(r"\{1, 2\}")
    assert isinstance(pair, Collection)
    assert isinstance(members, Collection)
    assert (pair.has_order, members.has_order) == (True, False)


def test_a_collection_with_too_many_members_has_no_structure() -> None:
    with pytest.raises(Unstructured):
        read_answer("(" + ", ".join(str(number) for number in range(MAX_MEMBERS + 1)) + ")")
