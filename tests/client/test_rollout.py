"""Lines of a stream as rollouts, and the errors of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemo_gym.client._rollout import Rollout, build_broken_stream_error, read_line, refusal
from nemo_gym.failures import Boundary, GymError, InputError, TransportError, VerifierError
from nemo_gym.names import END_KEY
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, TokenForm

ROW: dict[str, Any] = {"_ng_task_index": 2, "_ng_rollout_index": 1, "reward": 1, "response": {"output": []}}


def test_a_scored_row() -> None:
    rollout = read_line(json.dumps(ROW).encode())
    assert rollout is not None
    assert (rollout.task, rollout.repeat, rollout.reward, rollout.outcome) == (2, 1, 1.0, "completed")
    assert (rollout.failure, rollout.is_masked, rollout.segments) == (None, False, [])
    assert Rollout({**ROW, "mask_sample": True}).is_masked


def test_the_versions_of_the_policy_are_those_of_the_calls() -> None:
    stamps = [
        CallRecord(policy_version=3),
        CallRecord(policy_version=3, policy_version_end="4b"),
        CallRecord(policy_version="4b"),
    ]
    items = [{"type": "message", RECORD_FIELD: stamp.to_wire(TokenForm.PACKED)} for stamp in stamps]
    assert Rollout({**ROW, "response": {"output": items}}).policy_versions == (3, "4b")
    assert Rollout(ROW).policy_versions == ()


def test_a_failure_has_no_reward_whatever_its_row_says() -> None:
    failure = VerifierError("no such table", code="sql_failed").failure
    row = {**ROW, "_ng_outcome": "failed", "_ng_failure_class": failure.kind, **dict.fromkeys(["response"])}
    rollout = Rollout({**row, "_ng_failure": failure.to_wire()["error"]})
    assert (rollout.reward, rollout.outcome, rollout.response) == (None, "failed", {})
    assert rollout.failure == failure
    bare = Rollout(row).failure
    assert bare is not None
    assert (bare.code, bare.boundary) == ("verifier:sql_failed", Boundary.AGENT)


def test_the_last_line_ends_the_stream_or_stops_it_with_its_reason() -> None:
    assert read_line(json.dumps({END_KEY: {"rollouts": 3}}).encode()) is None
    stop = {"code": "failing_alike", "message": "all attempts fail", "remedy": "See the log."}
    with pytest.raises(GymError, match=r"all attempts fail. See the log\."):
        read_line(json.dumps({END_KEY: {"stop": stop}}).encode())


def test_an_answer_other_than_200_is_the_error_in_its_envelope() -> None:
    sent = InputError("no rows", code="invalid_request").failure
    error = refusal(422, json.dumps(sent.to_wire()).encode(), "http://head")
    assert isinstance(error, InputError)
    assert error.failure.status == 422
    foreign = refusal(502, b"<html>bad gateway \xff", "http://head")
    assert isinstance(foreign, TransportError)
    assert (foreign.failure.code, foreign.failure.peer) == ("http_502", "http://head")
    assert "http://head answered HTTP 502: <html>bad gateway" in str(foreign)


def test_a_stream_that_breaks_off_is_retryable_and_names_its_cause() -> None:
    assert "ended early (reset)" in str(build_broken_stream_error("http://head", OSError("reset")))
    assert "ended early (" not in str(build_broken_stream_error("http://head"))
    assert build_broken_stream_error("http://head").failure.retryable
