"""The parts of a formula outside of its brackets."""

import re

from resources_servers.math_with_judge.brackets import blank_brackets, split_outside_brackets


def test_brackets_are_blank_and_keep_their_length() -> None:
    assert blank_brackets("(1,2),[3]") == "(   ),[ ]"


def test_a_text_is_split_outside_of_its_brackets() -> None:
    assert split_outside_brackets(r"(1,2),\{3,4\}", re.compile(",")) == ["(1,2)", r"\{3,4\}"]
