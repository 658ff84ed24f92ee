from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.names import ALIVE_KEY
from nemo_gym.rollouts.run.answer import classify
from nemo_gym.rollouts.sessions.group_lines import build_member, write_group, write_sign
from tests.rollouts.doubles import failure, planned, scored
from tests.rollouts.sessions.books import book, member, start_all


def output(*records: dict[str, Any]) -> dict[str, Any]:
    items = [{"type": "message", "_ng_tokens": record} for record in records]
    return {"response": {"output": items, "usage": {"output_tokens": 12}}}


def test_the_versions_of_a_member_are_those_of_its_calls() -> None:
    calls = output({"policy_version": 3}, {"policy_version": 4, "policy_version_end": 6})
    settled = build_member(1, classify(planned(0), scored(planned(0), **calls)), 1)
    assert settled.versions == (3, 6)
    assert (settled.repeat, settled.metric, settled.tokens) == (1, 1.0, 12)
    parts = output({"policy_version": 3, "versions": [[0, 3], [5, 5]]})
    assert build_member(0, classify(planned(0), scored(planned(0), **parts)), 1).versions == (3, 5)
    bare = build_member(0, classify(planned(0), scored(planned(0))), 2)
    assert bare.versions == (2, 2), "rows that name no version have that of their attempt"


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (failure("engine_down"), "engine_down"),
        (scored(planned(0), mask_sample=True), "masked"),
        (scored(planned(0)), "no_metric"),
    ],
)
def test_what_has_no_metric_is_a_failure_and_no_zero(result: Any, code: str) -> None:
    metric = "raw" if code == "no_metric" else None
    settled = build_member(0, classify(planned(0), result), 0, metric)
    assert settled.metric is None
    assert settled.failure is not None
    assert settled.failure["code"] == code


def test_the_rows_of_a_group_are_the_bytes_of_the_answers() -> None:
    made = book("a", min_members=1, staleness={"bound": 0, "of": "rollout", "then": "drop"})
    start_all(made)
    made.set_version(1)
    made.settle(0, member(0, oldest=0))
    made.settle(0, member(1, oldest=1, metric=0.5))
    delivery = made.deliver()
    assert delivery is not None
    line = write_group(delivery, {0: b'{"n":0}', 1: b'{"n":  1}'}, delivered_at=5.0)
    assert b'"members":[{"n":  1}]}' in line
    told = orjson.loads(line)
    assert told["dropped"] == [{"repeat": 0, "reason": "stale", "versions": [0, 0]}]
    assert (told["versions"], told["staleness"], told["member_versions"]) == (
        {"oldest": 1, "newest": 1},
        0,
        [[1, 1]],
    )
    assert told["metric"] == {"mean": 0.5, "std": 0.0}


def test_a_cancellation_has_its_reason_cost_and_causes() -> None:
    made = book("a")
    start_all(made)
    made.settle(0, member(0, metric=None))
    delivery = made.deliver()
    assert delivery is not None
    told = orjson.loads(write_group(delivery, {}, delivered_at=0.0))
    assert (told["cancelled"], told["spent"]) == ("too_few", {"tokens": 10, "seconds": 1.0})
    assert told["failed"] == [{"repeat": 0, "failure": {"code": "engine_down"}}]
    assert "members" not in told


def test_a_sign_of_life_says_what_is_waited_for() -> None:
    assert orjson.loads(write_sign("tasks", {"running": 2})) == {
        ALIVE_KEY: {"waits_for": "tasks", "running": 2}
    }
