from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.verify._code_comparison import is_same_output, is_same_return_value


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("1 2\n3\n", "1 2\n3"),
        ("1 2 \n\n3", "  1  2\r\n3\n\n"),
        ("0.333333", "0.3333333333"),
        ("1e3", "1000"),
        ("2.0", "2"),
        ("YES", "YES\n"),
        ("", "\n"),
    ],
)
def test_the_same_output(expected: str, printed: str) -> None:
    assert is_same_output(expected, printed, 1e-6)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("1 2\n3", "1\n2 3"),
        ("2", "2.0"),
        ("YES", "yes"),
        ("0.333333", "0.34"),
        ("1.5", "1_5"),
        ("1.5", "nan"),
        ("1e309", "1e310"),
        ("1.0", "x"),
        ("1", ""),
        ("", "1"),
        ("1", "1 1"),
        ("1", "1\n1"),
    ],
)
def test_other_output(expected: str, printed: str) -> None:
    assert not is_same_output(expected, printed, 1e-6)


@pytest.mark.parametrize(
    ("expected", "returned", "is_same"),
    [
        ([1, [2]], (1, (2,)), True),
        ({"1": None}, {1: None}, True),
        ({"true": 1, "null": 2}, {True: 1, None: 2}, True),
        (0.3, 0.1 + 0.2, True),
        (1, 1.0, True),
        (1, True, False),
        (None, False, False),
        ("1", 1, False),
        ([1, 2], {1, 2}, False),
        ([], {}, False),
        (1, 1.1, False),
        (10**400, 10**400 + 1, False),
        (10**400, 1.5, False),
        ({"1": 1}, {(1,): 1}, False),
    ],
)
def test_return_values_are_compared_as_json(expected: Any, returned: Any, is_same: bool) -> None:
    assert is_same_return_value(expected, returned, 1e-6) is is_same
