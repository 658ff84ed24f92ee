"""The times of a row: phases, sums of the calls of models and tools, and odd rows."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rows.timing import CallKind, TimedCall, measure_times, read_timed_calls

CALLS = [
    ["policy_model", "/v1/responses", 0.5],
    ["shop", "/buy%2Fnow", 1.5],
    ["policy_model", "/v1/chat/completions", 0.25],
    ["shop", "/v1/responses/x", 0.125],
]


def timed(**timing: Any) -> dict[str, Any]:
    return {"_ng_timing": timing}


def test_the_calls_of_a_row_are_those_of_the_model_and_of_tools() -> None:
    assert list(read_timed_calls(timed(calls=CALLS))) == [
        TimedCall(CallKind.MODEL, "policy_model", 0.5),
        TimedCall(CallKind.TOOLS, "buy/now", 1.5),
        TimedCall(CallKind.MODEL, "policy_model", 0.25),
        TimedCall(CallKind.TOOLS, "v1/responses/x", 0.125),
    ]


def test_the_numbers_of_a_row_name_where_its_time_went() -> None:
    row = timed(queue=0.1, seed_session=0.01, act=2.5, verify=2.0, total=4.51, calls=CALLS)
    assert measure_times(row) == {
        "seconds": 4.51,
        "seconds/queue": 0.1,
        "seconds/verify": 2.0,
        "seconds/model": 0.75,
        "seconds/tools": 1.625,
    }


def test_a_row_without_times_of_calls_has_no_sums_of_them() -> None:
    assert measure_times(timed(act=1.0, total=1.5)) == {"seconds": 1.5}
    assert measure_times(timed(total=1.5, calls=[])) == {
        "seconds": 1.5,
        "seconds/model": 0,
        "seconds/tools": 0,
    }


@pytest.mark.parametrize("timing", [None, [], "fast", {"total": "fast"}, {"calls": 3}])
def test_times_of_another_form_are_left_out(timing: object) -> None:
    assert "seconds" not in measure_times({"_ng_timing": timing})


@pytest.mark.parametrize("call", [None, [], ["a", "/b"], ["a", "/b", "c"], ["a", "/b", None], {"a": 1}])
def test_a_call_of_another_form_is_left_out(call: object) -> None:
    assert list(read_timed_calls(timed(calls=[call, *CALLS[:1]]))) == [
        TimedCall(CallKind.MODEL, "policy_model", 0.5)
    ]
