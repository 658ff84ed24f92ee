"""A verdict is dumped once, and every reader on the way to its row accepts it."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.responses import Response as HttpResponse
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from nemo_gym.failures import VerifierError
from nemo_gym.resources.verdicts import check_response, dump_verdict
from nemo_gym.rows.models import BaseVerifyRequest, BaseVerifyResponse
from resources_servers.mcqa.app import MCQAResourcesServer
from tests.resources.unreadable import NO_REWARDS, UNREADABLE, nested


class Verdict(BaseModel):
    model_config = ConfigDict(extra="allow")

    reward: Any = 1.0
    field: Any = None


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("as_model", [True, False])
def test_a_verdict_that_no_row_can_hold_is_refused(name: str, as_model: bool) -> None:
    value = UNREADABLE[name]()
    for field in ("field", "undeclared"):
        with pytest.raises((TypeError, ValueError)):
            dump_verdict(Verdict(**{field: value}) if as_model else {"reward": 1.0, field: value})


@pytest.mark.parametrize("reward", [*NO_REWARDS.values(), None, "1", True, [1.0], 10**400])
def test_a_verdict_without_a_finite_reward_is_refused(reward: Any) -> None:
    for result in (Verdict(reward=reward), {"reward": reward}):
        with pytest.raises((VerifierError, TypeError, ValueError)) as caught:
            dump_verdict(result)
        if reward != 10**400:
            assert isinstance(caught.value, VerifierError)
            assert caught.value.failure.code == "no_reward"


@pytest.mark.parametrize("result", [0.5, None, [], "text"])
def test_a_result_that_is_no_verdict_is_refused(result: Any) -> None:
    with pytest.raises(VerifierError) as raised:
        dump_verdict(result)
    assert f"`verify` returned {result!r}, which is no BaseVerifyResponse" in raised.value.failure.message


def test_a_result_without_a_reward_is_refused_with_the_place_of_verify() -> None:
    with pytest.raises(VerifierError, match=r"`reward` is None\."):
        dump_verdict({})
    with pytest.raises(VerifierError, match=r"`reward` is nan \(resources_servers/mcqa/app\.py:\d+\)"):
        dump_verdict({"reward": float("nan")}, verify=MCQAResourcesServer.verify)


def test_a_reward_that_is_text_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"is the text '0\.5'; write a number"):
        BaseVerifyResponse.model_validate({"responses_create_params": {}, "response": {}, "reward": "0.5"})


@pytest.mark.parametrize("as_model", [True, False])
def test_readable_values_are_dumped_as_before(as_model: bool) -> None:
    fields = {"reward": 0.5, "field": {"a": [nested(200), "7" * 1000, "]" * 1000, float("nan"), 2**63, "é"]}}
    row = orjson.loads(dump_verdict(Verdict(**fields) if as_model else fields))
    assert row == {"reward": 0.5, "field": {"a": [nested(200), "7" * 1000, "]" * 1000, None, 2**63, "é"]}}


class Request(BaseVerifyRequest):
    gold: str


class Scored(BaseVerifyResponse):
    seconds: float


class Strict(BaseVerifyResponse, extra="forbid"): ...


REQUEST = Request.model_validate(
    {
        "responses_create_params": {"input": "x"},
        "response": {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [],
                     "parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
        "gold": "1",
    }
)  # fmt: skip
OF_AGENT = "responses_create_params,response,mask_sample,failure_kind,failure_reason"


@pytest.mark.parametrize(
    "score", [{"quality": 0.5}, {"steps": [1, {"a": None}], "by": "b"}, {"reward": 0.25}]
)
def test_fields_that_its_class_does_not_declare_are_in_the_row(score: dict[str, Any]) -> None:
    whole = {"reward": 1.0, **score}
    plain = BaseVerifyResponse(**REQUEST.model_dump(), **whole)
    assert orjson.loads(dump_verdict(plain, OF_AGENT)) == {"gold": "1", **whole}
    typed = Scored(**dict(REQUEST), seconds=2, **whole)
    assert orjson.loads(dump_verdict(typed, OF_AGENT)) == {"gold": "1", "seconds": 2.0, **whole}
    changed = BaseVerifyResponse(**dict(REQUEST), reward=0)
    for name, value in whole.items():
        setattr(changed, name, value)
    assert orjson.loads(dump_verdict(changed, OF_AGENT + ",gold")) == whole


def test_an_author_may_forbid_them() -> None:
    with pytest.raises(ValidationError, match="quality"):
        Strict(**{**REQUEST.model_dump(exclude={"gold"}), "reward": 1, "quality": 0.5})


def test_fields_that_the_caller_has_are_left_out() -> None:
    assert orjson.loads(dump_verdict(Verdict(field=1, response=2), "field,response")) == {"reward": 1.0}


def test_a_row_that_is_marked_as_failed_needs_no_reward() -> None:
    assert orjson.loads(dump_verdict({"_ng_failure_class": "judge_failed"}))


@given(st.integers(min_value=1, max_value=40_000), st.integers(min_value=305, max_value=320))
def test_an_integer_beyond_all_floats_is_refused_at_any_place(before: int, digits: int) -> None:
    body_is_readable = True
    try:
        body = dump_verdict(Verdict(field=["x" * before, 10**digits]))
    except ValueError:
        body_is_readable = False
    assert body_is_readable == (digits <= 308)
    assert not body_is_readable or orjson.loads(body)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"reward": float("nan")}),
        json.dumps({"reward": 1, "text": "\ud800"}),
        json.dumps({"reward": 1, "number": 10**400}),
        json.dumps({"reward": None}),
        json.dumps([1]),
        "",
        "no JSON",
    ],
)
def test_a_response_without_a_verdict_is_refused(body: str) -> None:
    with pytest.raises((VerifierError, ValueError)):
        check_response(HttpResponse(body))


async def _chunks() -> Any:
    yield b"{}"


def test_responses_with_a_verdict_or_an_error_pass() -> None:
    check_response(JSONResponse({"reward": 1, "text": "ok"}))
    check_response(PlainTextResponse("the row is invalid", 422))
    check_response(StreamingResponse(_chunks()))
