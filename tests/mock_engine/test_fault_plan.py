"""Rules of a fault plan: which requests they select."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine._faults import FaultPlan, FaultRule
from nemo_gym.mock_engine.fault_plan import read_plan


def met(rules: list[Any], requests: list[tuple[str, bytes]], seed: int = 0) -> list[str | None]:
    """The names of what acts on each of the requests."""
    plan = read_plan(rules, FaultRule, seed)
    picked = [plan.pick(route, body) for route, body in requests]
    return [rule.name if rule else None for rule in picked]


CHATS = [("chat", b"{}")] * 6


@pytest.mark.parametrize(
    ("when", "hits"),
    [
        ({"nth": 2}, [2]),
        ({"nth": [1, 4]}, [1, 4]),
        ({"every": 3}, [3, 6]),
        ({"times": 2}, [1, 2]),
        ({"every": 2, "times": 1}, [2]),
        ({"probability": 0}, []),
        ({"route": "models"}, []),
        ({"route": ["models", "chat"], "nth": 6}, [6]),
        ({}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_rule_meets_the_requests_it_describes(when: dict[str, Any], hits: list[int]) -> None:
    names = met([{"do": "hang", **when}], CHATS)
    assert [place for place, name in enumerate(names, 1) if name] == hits


def test_the_first_rule_acts_and_every_rule_counts() -> None:
    rules = [{"do": "hang", "nth": 2}, {"do": "http_500", "nth": [2, 3]}, {"do": "drip", "times": 1}]
    assert met(rules, CHATS) == ["drip", "hang", "http_500", None, None, None]


def test_a_match_is_sought_in_the_body_and_counts_only_such_requests() -> None:
    requests = [("chat", b"cat"), ("chat", b"dog 1"), ("chat", b"cat"), ("chat", b"dog 2")]
    assert met([{"do": "hang", "match": "dog", "nth": 2}], requests) == [None, None, None, "hang"]


def test_each_distinct_body_can_be_counted_on_its_own() -> None:
    requests = [("chat", b"a"), ("chat", b"b"), ("chat", b"a"), ("chat", b"b")]
    assert met([{"do": "http_503", "times": 1, "each": True}], requests) == [
        "http_503",
        "http_503",
        None,
        None,
    ]


def test_probability_is_as_configured_and_repeats_with_the_seed() -> None:
    rule = [{"do": "hang", "probability": 0.25}]
    requests = [("chat", b"")] * 2_000
    first = met(rule, requests, seed=1)
    assert first == met(rule, requests, seed=1) != met(rule, requests, seed=2)
    assert 400 < first.count("hang") < 600


def test_a_plan_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("- {do: hang}\n- {delay_s: uniform:1:2}\n")
    assert [rule.name for rule in read_plan(str(file), FaultRule).rules] == ["hang", "delay"]


def test_a_plan_can_be_written_in_place() -> None:
    assert [rule.name for rule in read_plan("[{do: hang}]", FaultRule).rules] == ["hang"]
    assert not FaultPlan([])


def test_a_missing_plan_is_named() -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        read_plan("gone.yaml", FaultRule)
