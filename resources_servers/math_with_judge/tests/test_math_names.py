"""Names of quantities, and expressions of several names that are one quantity to be found."""

from __future__ import annotations

import pytest

from resources_servers.math_with_judge.math_names import (
    drop_domains,
    is_name,
    is_statement,
    name_free_integer,
    names_one_value,
    split_modulus,
    write_both_signs,
    write_out_modulus,
)


def test_a_name_is_one_symbol() -> None:
    assert is_name("x")
    assert is_name("AB")
    assert is_name(r"\angle A")
    assert not is_name("x+1")
    assert not is_name(r"\pi")


@pytest.mark.parametrize("text", ["m+n", "100m+n", "AB+BC", "|AB|", "|z|", "a^{2}+b^{2}", "a_{1}+a_{2}"])
def test_an_expression_of_several_names_is_to_be_found(text: str) -> None:
    assert names_one_value(text)


@pytest.mark.parametrize(
    "text", ["x^{2}", "2x", "x+1", "|x|", "|x-1|", "x+y", "2x+3y", "x^{2}+y^{2}", "a+b+1", "12"]
)
def test_an_equation_in_one_unknown_and_a_curve_are_not(text: str) -> None:
    assert not names_one_value(text)


def test_a_statement_is_a_letter_or_its_negation() -> None:
    assert is_statement("p")
    assert is_statement(r"\neg q")
    assert not is_statement("2")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("|x|<1", "-(1) < x < 1"),
        (r"|x| \ge 2", r"x \le -(2) or x \ge 2"),
        ("|z|<1", "|z|<1"),
        ("|x|=1", "|x|=1"),
    ],
)
def test_a_bound_of_a_modulus_is_written_as_inequalities(text: str, written: str) -> None:
    assert write_out_modulus(text) == written


def test_a_free_integer_is_named_n() -> None:
    assert name_free_integer(r"2k\pi, k \in \mathbb{Z}") == r"2n\pi, n \in \mathbb{Z}"
    assert name_free_integer(r"2m\pi \text{ for any integer } m") == r"2n\pi, n \in \mathbb{Z}"
    assert name_free_integer(r"k+n, k \in \mathbb{Z}") == r"k+n, k \in \mathbb{Z}"
    assert name_free_integer(r"x \in \mathbb{R}") == r"x \in \mathbb{R}"


def test_a_modulus_is_split_from_a_value_and_not_from_a_congruence() -> None:
    assert split_modulus(r"3 \pmod{7}") == ("3", r"\pmod{7}")
    assert split_modulus(r"x \equiv 3 \pmod{7}") is None
    assert split_modulus("3") is None


def test_both_signs_are_written() -> None:
    assert list(write_both_signs(r"1 \pm 2")) == ["1 + 2", "1 - 2"]


def test_the_domain_of_a_name_beside_a_statement_about_it_is_dropped() -> None:
    assert drop_domains([r"x \in \mathbb{R}", "x = 5"]) == ["x = 5"]
    assert drop_domains([r"x \in \mathbb{R}", "y = 5"]) == [r"x \in \mathbb{R}", "y = 5"]
