from __future__ import annotations

import math
from pathlib import Path

import orjson
import pytest

from nemo_gym.rollouts.lookback.fork_values import describe_values, estimate_value, read_values


def test_rewards_of_0_and_1_have_the_interval_of_a_rate() -> None:
    value = estimate_value("0.0@2", [1.0, 0.0, 0.0, 1.0])
    assert (value.forks, value.mean) == (4, 0.5)
    assert (value.low, value.high) == pytest.approx((0.0676, 0.9324), abs=1e-4)


def test_other_rewards_have_the_interval_of_a_mean_within_what_rewards_can_be() -> None:
    value = estimate_value("0.0@2", [0.4, 0.5, 0.6])
    assert value.mean == pytest.approx(0.5)
    assert (value.low, value.high) == pytest.approx((0.2516, 0.7484), abs=1e-4)
    assert str(value) == "0.0@2: 0.500 (0.252 to 0.748) of 3 forks"
    one = estimate_value("0.0@2", [0.4])
    assert str(one).endswith(" of 1 fork")
    assert (one.low, one.high) == (-math.inf, math.inf)


def test_values_are_by_group_and_without_failures(tmp_path: Path) -> None:
    rows = [
        {"_ng_fork": {"group": f"{task}.0@1"}, "reward": reward} for task in (0, 1) for reward in (0.0, 1.0)
    ]
    rows.append({"_ng_fork": {"group": "0.0@1"}, "reward": None})
    path = tmp_path / "forks.jsonl"
    assert read_values(path) == []
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows) + b'{"torn')
    values = read_values(path)
    assert [(value.group, value.forks, value.mean) for value in values] == [
        ("0.0@1", 2, 0.5),
        ("1.0@1", 2, 0.5),
    ]
    (note,) = describe_values(values)
    assert note.startswith(
        "mean reward after the shared calls, with its 95 % interval: 0.0@1: 0.500 (0.013 to 0.987)"
    )
    assert list(describe_values([])) == []
    assert next(iter(describe_values(values * 8))).endswith("; and 6 more")
