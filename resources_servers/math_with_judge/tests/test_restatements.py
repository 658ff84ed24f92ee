import pytest

from resources_servers.math_with_judge.restatements import split_restatement


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        (r"90\text{ minutes} = 1.5\text{ hours}", [r"90\text{ minutes}", r"1.5\text{ hours}"]),
        (r"1.5\text{ hours (90 minutes)}", ["1.5  hours", "90 minutes"]),
        (r"\frac{7}{2} \text{ or } 3.5", [r"\frac{7}{2}", "3.5"]),
    ],
)
def test_a_quantity_that_is_stated_twice_is_split(text: str, statements: list[str]) -> None:
    assert split_restatement(text) == statements


@pytest.mark.parametrize(
    "text", ["5", "x = 5", "3 or 4", "5 (3)", "f(2)", "1 = 1 = 1 = 1 = 1", "5 km or more"]
)
def test_other_texts_are_no_restatement(text: str) -> None:
    assert split_restatement(text) is None
