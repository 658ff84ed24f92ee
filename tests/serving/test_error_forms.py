from __future__ import annotations

import pytest

from nemo_gym.failures import Boundary, EngineError, Failure, InputError
from nemo_gym.serving.error_forms import anthropic_error


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (409, "invalid_request_error"),
        (429, "rate_limit_error"),
        (502, "api_error"),
    ],
)
def test_the_type_follows_the_status(status: int, kind: str) -> None:
    body = anthropic_error(InputError("no", code="x", status=status).failure)
    assert (body["type"], body["error"]["type"], body["error"]["message"]) == ("error", kind, "no")


def test_servers_of_the_gym_read_it_as_their_own() -> None:
    failure = EngineError("busy", code="rate_limited", retryable=True, peer="e", status=429).failure
    assert Failure.from_wire(anthropic_error(failure), status=429) == failure
    assert failure.boundary is Boundary.ENGINE


def test_an_overlong_prompt_has_the_message_that_agents_know() -> None:
    failure = EngineError("9 tokens", code="context_overflow", status=400).failure
    assert anthropic_error(failure)["error"]["message"] == "prompt is too long: 9 tokens"
