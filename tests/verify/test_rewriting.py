"""Pairs of a pattern and its replacement: their order, their flags and what they leave alone."""

from __future__ import annotations

import re

from nemo_gym.verify._rewriting import Rewriting


def test_each_pair_sees_the_text_that_the_one_before_it_left() -> None:
    assert Rewriting([("a", "b"), ("bb", "c")]).rewrite("ab") == "c"
    assert Rewriting([("bb", "c"), ("a", "b")]).rewrite("ab") == "bb"


def test_a_replacement_may_name_groups_of_its_pattern() -> None:
    assert Rewriting([(r"(\d),(\d)", r"\1\2")]).rewrite("1,234 and 5, 6") == "1234 and 5, 6"


def test_flags_hold_for_every_pattern_and_are_off_by_default() -> None:
    pairs = [("one", "1"), ("two", "2")]
    assert Rewriting(pairs, re.IGNORECASE).rewrite("ONE Two") == "1 2"
    assert Rewriting(pairs).rewrite("ONE two") == "ONE 2"


def test_without_pairs_or_matches_the_text_is_the_same() -> None:
    assert Rewriting([]).rewrite("as it was") == "as it was"
    assert Rewriting(iter([("x", "y")])).rewrite("as it was") == "as it was"
