"""The error tree: one class for each boundary, and an envelope that loses nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.failures import (
    JUDGE_FAILED,
    STATUS_OF_BOUNDARY,
    Boundary,
    ConfigError,
    EngineError,
    Failure,
    GymError,
    JudgeError,
    build_error,
)

texts = st.text(max_size=10)
failures = st.builds(
    Failure,
    boundary=st.sampled_from(Boundary),
    code=texts,
    message=texts,
    retryable=st.booleans(),
    remedy=st.none() | texts,
    peer=st.none() | texts,
    param=st.none() | texts,
    status=st.none() | st.integers(400, 599),
    hops=st.lists(texts, max_size=3).map(tuple),
)


@given(failures)
def test_a_failure_survives_its_envelope(failure: Failure) -> None:
    assert Failure.from_wire(failure.to_wire(), status=failure.status) == failure
    raised = build_error(failure)
    assert raised.failure == failure
    assert raised.boundary is failure.boundary


@pytest.mark.parametrize("boundary", Boundary)
def test_every_boundary_has_a_status_and_a_class_of_its_own(boundary: Boundary) -> None:
    failure = Failure(boundary, "code", "message")
    assert failure.http_status == STATUS_OF_BOUNDARY[boundary] >= 400
    assert type(build_error(failure)) in GymError.__subclasses__()
    assert failure.kind == f"{boundary}:code"


@pytest.mark.parametrize(
    "body",
    [
        *(None, [], {}, {"error": "text"}, {"error": {"message": "openai's own", "type": "engine"}}),
        *({"error": {"retryable": True}}, {"error": {"retryable": True, "type": "weather"}}),
    ],
)
def test_a_body_of_another_origin_is_no_failure(body: object) -> None:
    assert Failure.from_wire(body) is None


def test_an_own_status_precedes_that_of_the_boundary_and_hops_are_in_order() -> None:
    failure = EngineError("full", code="context_overflow", status=400).failure
    assert failure.http_status == 400
    assert failure.add_hop("model").add_hop("agent").hops == ("model", "agent")


def test_the_text_of_an_error_ends_with_its_remedy() -> None:
    assert str(ConfigError("the key is not set", code="x", remedy="Set it.")) == "the key is not set. Set it."
    assert str(ConfigError("the key is not set", code="x")) == "the key is not set"


def test_a_judge_error_needs_only_a_message_and_may_be_retried() -> None:
    failure = JudgeError("offline").failure
    assert (failure.code, failure.retryable) == (JUDGE_FAILED, True)
    assert JudgeError("offline", retryable=False).failure.retryable is False
