"""Problems of a configuration: collected, printed and raised together."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.config.problems import ConfigErrors, InputChecks, Location, Problem, Problems, did_you_mean
from nemo_gym.failures import ConfigError
from tests.config.small_gym import load_in


def test_problems_are_raised_as_one_error_that_can_be_printed_and_caught(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as raised:
        load_in(tmp_path, "+a=1", "+config_paths=[no.yaml]")
    assert raised.value.failure.kind == "config:invalid_config"
    assert "no.yaml" in str(raised.value)
    assert raised.value.report().startswith(
        "command line: +config_paths=[no.yaml]\nThere is no file 'no.yaml'.\n-> "
    )


def test_a_report_of_several_problems_is_numbered(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as raised:
        load_in(tmp_path, "+a=1", "+b=1")
    assert raised.value.report().splitlines()[:2] == [
        "1. command line: +a=1",
        "   The key 'a' is not used.",
    ]


def test_a_problem_is_kept_once_and_an_absence_only_without_gaps() -> None:
    problems, where = Problems(), Location("main.yaml", 3, 5)
    for _ in range(2):
        problems.add(where, "The value is wrong.", "Correct it.")
        problems.warn("a warning")
    problems.add_absence(None, "A key is missing.")
    problems.add_gap(Location("other.yaml"), "The file is not YAML.")
    problems.add_absence(None, "Another key is missing.")
    assert [str(problem) for problem in problems.found] == [
        "main.yaml:3:5: The value is wrong. Correct it.",
        "A key is missing.",
        "other.yaml: The file is not YAML.",
    ]
    assert problems.warnings == ["a warning"]
    with pytest.raises(ConfigErrors):
        problems.raise_if_any()


def test_no_problem_raises_nothing() -> None:
    Problems(warnings=["a warning"]).raise_if_any()


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("limti", "Did you mean 'limit'?"),
        ("model_a", "Did you mean 'model_b' or 'model'?"),
        ("limit_of_tasks", "Did you mean 'limit'?"),
        ("weather", None),
    ],
)
def test_the_nearest_words_are_suggested(word: str, hint: str | None) -> None:
    assert did_you_mean(word, ["limit", "model", "model_b"]) == hint


def test_all_checks_are_made_and_their_errors_raised_together() -> None:
    checks = InputChecks()
    with checks.check():
        raise ConfigError("the output exists", code="output_exists", remedy="Choose another.")
    with checks.check():
        raise ConfigErrors([Problem(None, "a"), Problem(None, "b")])
    with checks.check():
        pass
    with pytest.raises(ConfigErrors) as raised:
        checks.raise_if_any()
    assert [problem.message for problem in raised.value.problems] == ["the output exists", "a", "b"]


def test_the_only_error_is_raised_as_it_is() -> None:
    checks = InputChecks()
    checks.raise_if_any()
    with checks.check():
        raise ConfigError("the output exists", code="output_exists")
    with pytest.raises(ConfigError) as raised:
        checks.raise_if_any()
    assert raised.value.failure.code == "output_exists"
