from random import Random
from statistics import fmean

import pytest

from nemo_gym.mock_engine._distributions import parse_distribution


@pytest.mark.parametrize(
    ("text", "mean"),
    [("2", 2), (2.5, 2.5), ("constant:2", 2), ("uniform:1,3", 2), ("uniform:1:3", 2), ("exponential:4", 4)],
)
def test_a_distribution_has_the_mean_that_its_text_says(text: object, mean: float) -> None:
    rng = Random(1)
    assert fmean(parse_distribution(text).draw(rng) for _ in range(4_000)) == pytest.approx(mean, rel=0.05)


def test_lognormal_is_given_by_its_own_mean_and_sigma() -> None:
    rng = Random(1)
    draws = [parse_distribution("lognormal:2:0.5").draw(rng) for _ in range(8_000)]
    assert fmean(draws) == pytest.approx(2, rel=0.03)
    assert sum(draw < 2 * 2.718281828 ** (-0.125) for draw in draws) / len(draws) == pytest.approx(
        0.5, abs=0.02
    )


def test_exponential_of_zero_is_zero() -> None:
    assert parse_distribution("exponential:0").draw(Random(1)) == 0


@pytest.mark.parametrize("text", ["0.5", "uniform:1:3", "lognormal:2:0.5", "exponential:4"])
def test_a_distribution_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_distribution(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "uniform:1", "uniform:3,1", "normal:1,2", "lognormal:0,1", "nan", "inf", True, None, [1]],
)
def test_what_is_no_distribution_is_refused(text: object) -> None:
    with pytest.raises(ValueError):
        parse_distribution(text)
