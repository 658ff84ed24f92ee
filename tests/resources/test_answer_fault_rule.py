"""An answer that breaks its verifier scores 0 with its reason; a broken environment or machine is a failure."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import orjson
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.responses import Response as HttpResponse
from pydantic import BaseModel, ConfigDict, field_serializer

from nemo_gym.base_resources_server import (
    BaseMultiRewardVerifyResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.failures import JudgeError, VerifierError
from nemo_gym.metrics import read_measurements
from nemo_gym.processes.workers import default_pool
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.verify.answer_faults import AnswerFault, score_in_worker
from nemo_gym.verify.answers import final_text
from tests.resources.unreadable import NO_REWARDS, UNREADABLE


class Brittle(SimpleResourcesServer):
    """A verifier that raises for answers that are no numbers, and for every answer to a broken row."""

    calls: int = 0

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        self.calls += 1
        text = final_text(body.response)
        match text.removeprefix("say "):
            case "once" if self.calls == 1:
                raise RuntimeError("a passing fault")
            case "endless":
                await default_pool().run(re.fullmatch, "(a+)+", "a" * 50 + "b", timeout_s=0.3)
            case "memory":
                await default_pool().run(bytearray, 1 << 40, timeout_s=60)
            case "exit":
                await default_pool().run(os._exit, 3, timeout_s=60)
            case "disk":
                raise OSError(28, "No space left on device")
            case "stated":
                raise VerifierError("the database is gone", code="database_failed")
        if body.responses_create_params.input == "broken":
            raise KeyError("expected_answer")
        number = re.search(r"\d+", text)
        if text and number is None and text != "once":
            raise ValueError(f"no number in {text!r}")
        return BaseVerifyResponse(**dict(body), reward=float(number is not None))


def body_of(text: str, row: str = "x") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [message]}
    response = {**answer, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {"responses_create_params": {"input": row}, "response": response}


async def verified(
    text: str,
    row: str = "x",
    server: type[SimpleResourcesServer] = Brittle,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    gym = InProcessGym()
    gym.add(server, "env")
    data = json.dumps(body_of(text, row)).encode()
    reply = await gym.client().post("env", "/verify", data=data, headers=headers)
    answer: dict[str, Any] = orjson.loads(reply.body)
    return answer


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("words", "raised"),
        ("endless", "cpu_time"),
        ("memory", "memory"),
        ("exit", "crashed"),
        ("\ud800", "raised"),
    ],
)
async def test_a_fault_of_the_answer_is_0_with_its_reason(text: str, kind: str) -> None:
    row = await verified(text)
    assert (row["reward"], row["answer_fault"]) == (0.0, kind)
    assert row["answer_fault_detail"]
    assert row["response"]["output"][0]["content"][0]["text"] == text.replace("\ud800", "\ufffd" * 1)


async def test_an_answer_that_breaks_nothing_is_unchanged() -> None:
    row = await verified("5")
    assert row["reward"] == 1.0
    assert "answer_fault" not in row


@pytest.mark.parametrize("text", ["5", "words"])
async def test_a_fault_of_the_environment_is_a_failure(text: str) -> None:
    assert "error" in await verified(text, row="broken")


@pytest.mark.parametrize(("text", "code"), [("disk", None), ("stated", "database_failed")])
async def test_a_fault_of_the_machine_and_a_stated_failure_stay_failures(text: str, code: str | None) -> None:
    error = (await verified(text))["error"]
    assert code is None or error["code"] == code


async def test_a_fault_that_passes_is_not_the_answers() -> None:
    assert (await verified("once"))["reward"] == 0.0
    assert "answer_fault" not in await verified("once")


class EchoVerdict(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


def fields_of(text: str, row: object) -> dict[str, Any]:
    """The reward of a verdict, and a field with what the answer, or the row, asks for."""
    name = text if row != "broken" else "surrogate"
    reward = NO_REWARDS.get(name, float("1" in text))
    return {"reward": reward, "echo": UNREADABLE[name]() if name in UNREADABLE else name}


class Typed(SimpleResourcesServer):
    async def verify(self, body: BaseVerifyRequest) -> EchoVerdict:
        fields = fields_of(final_text(body.response), body.responses_create_params.input)
        return EchoVerdict.model_validate({**dict(body), **fields})


class Plain(SimpleResourcesServer):
    async def verify(self, request: Request, body: BaseVerifyRequest) -> dict[str, Any]:  # type: ignore[override]
        row = {"response": body.response, "asked": request.url.path}
        return row | fields_of(final_text(body.response), body.responses_create_params.input)


class Ready(SimpleResourcesServer):
    async def verify(self, body: BaseVerifyRequest) -> HttpResponse:  # type: ignore[override]
        fields = fields_of(final_text(body.response), body.responses_create_params.input)
        return HttpResponse(json.dumps(fields), media_type="application/json")


class Parts(SimpleResourcesServer):
    async def verify(self, body: BaseVerifyRequest) -> BaseMultiRewardVerifyResponse:
        fields = fields_of(final_text(body.response), body.responses_create_params.input)
        parts = {str(fields["echo"]): fields["reward"], "form": 0.0}
        return BaseMultiRewardVerifyResponse(**dict(body), reward=fields["reward"], reward_components=parts)


class Untyped(BaseModel):
    responses_create_params: dict[str, Any]
    response: dict[str, Any]


class OwnForm(SimpleResourcesServer):
    """An author's own request and serializer."""

    async def verify(self, body: Untyped) -> Any:  # type: ignore[override]
        output = body.response["output"]
        text = output[-1]["content"][0]["text"] if output else ""

        class Verdict(BaseModel):
            reward: float
            echo: Any
            response: dict[str, Any]

            @field_serializer("echo")
            def _as_text(self, echo: Any) -> str:
                return str(echo)

        return Verdict(**fields_of(text, body.responses_create_params["input"]), response=body.response)


class Judging(SimpleResourcesServer):
    async def verify(self, body: BaseVerifyRequest) -> EchoVerdict:
        text = final_text(body.response)
        if text == "undecided":
            raise JudgeError("no label in \ud800")
        fields = fields_of(text, body.responses_create_params.input)
        return EchoVerdict.model_validate({**dict(body), **fields})


def answer_fast(request: Request) -> str:
    return request.headers.get("x-ng-session", "none")


class Injected(SimpleResourcesServer):
    """A `verify` that needs FastAPI."""

    async def verify(  # type: ignore[override]
        self, body: BaseVerifyRequest, response: HttpResponse, session: str = Depends(answer_fast)
    ) -> EchoVerdict:
        response.headers["x-scored-by"] = session
        fields = fields_of(final_text(body.response), body.responses_create_params.input)
        return EchoVerdict.model_validate({**dict(body), **fields})


EVERY_FORM = [Typed, Plain, Judging, Injected]


@pytest.mark.parametrize("server", EVERY_FORM)
@pytest.mark.parametrize("text", [*UNREADABLE, *NO_REWARDS])
async def test_an_answer_whose_verdict_no_row_can_hold_scores_0(
    server: type[SimpleResourcesServer], text: str
) -> None:
    row = await verified(text, server=server)
    assert (row["reward"], row["answer_fault"]) == (0.0, "raised")
    assert row["answer_fault_detail"]
    assert row["response"]["output"][0]["content"][0]["text"] == text


@pytest.mark.parametrize(
    ("server", "text"),
    [(Ready, name) for name in ("surrogate", "integer_beyond_all_floats", "endless", "bytes", *NO_REWARDS)]
    + [(Parts, name) for name in NO_REWARDS]
    + [(OwnForm, name) for name in ("surrogate", "half_a_pair", *NO_REWARDS)],
)
async def test_other_forms_of_verdicts_are_under_the_rule(
    server: type[SimpleResourcesServer], text: str
) -> None:
    row = await verified(text, server=server)
    assert (row["reward"], row["answer_fault"]) == (0.0, "raised")
    assert set(row.get("reward_components", {}).values()) <= {0.0}


@pytest.mark.parametrize("server", [*EVERY_FORM, Ready, OwnForm])
async def test_an_environment_whose_verdict_no_row_can_hold_fails(
    server: type[SimpleResourcesServer],
) -> None:
    assert "error" in await verified("1", row="broken", server=server)
    right = await verified("1", server=server)
    assert right["reward"] == 1.0
    assert "answer_fault" not in right


async def test_an_environment_without_a_reward_is_told_so() -> None:
    class Unscored(SimpleResourcesServer):
        async def verify(self, body: BaseVerifyRequest) -> Any:
            return {"reward": float("nan")}

    error = (await verified("1", server=Unscored))["error"]
    assert (error["code"], error["peer"]) == ("no_reward", "env")
    assert "nan" in error["message"]


@pytest.mark.parametrize("server", EVERY_FORM)
async def test_a_caller_that_has_the_response_gets_none(server: type[SimpleResourcesServer]) -> None:
    no_echo = {"x-ng-leave-out": "responses_create_params,response"}
    for text in ("1", "surrogate"):
        row = await verified(text, server=server, headers=no_echo)
        assert "response" not in row or server is Plain
        assert row["reward"] == float(text == "1")


async def test_a_failed_judge_is_a_failure_whatever_it_quotes() -> None:
    row = await verified("undecided", server=Judging)
    assert row["_ng_failure_class"] == "judge_failed"
    assert row["failure_reason"] == "no label in \ufffd"


async def test_the_headers_that_a_verify_sets_are_kept() -> None:
    gym = InProcessGym()
    gym.add(Injected, "env")
    session = {"x-ng-session": "s-1"}
    data = json.dumps(body_of("1")).encode()
    reply = await gym.client().post("env", "/verify", data=data, headers=session)
    assert reply.headers["x-scored-by"] == "s-1"


async def test_a_verdict_is_dumped_once() -> None:
    dumps = []

    class Counted(EchoVerdict):
        @field_serializer("reward")
        def _count(self, reward: float) -> float:
            dumps.append(reward)
            return reward

    class Counting(SimpleResourcesServer):
        async def verify(self, body: BaseVerifyRequest) -> Counted:
            return Counted(**dict(body), reward=0.5)

    assert (await verified("1", server=Counting))["reward"] == 0.5
    assert dumps == [0.5]


def test_the_routes_keep_their_schema() -> None:
    app: FastAPI = Typed.standalone().setup_webserver()
    verify = app.openapi()["paths"]["/verify"]["post"]
    assert "parameters" not in verify
    answer = verify["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/EchoVerdict"}


async def test_an_error_that_the_author_answers_is_passed_on() -> None:
    class Refusing(SimpleResourcesServer):
        async def verify(self, body: BaseVerifyRequest) -> HttpResponse:  # type: ignore[override]
            return JSONResponse({"detail": "no such row"}, 422)

    assert await verified("1", server=Refusing) == {"detail": "no such row"}


class Composed(SimpleResourcesServer):
    """A verifier of several parts, one of which runs in a worker."""

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        text = final_text(body.response)
        number = await score_in_worker(int, text or "0", control=("0",), timeout_s=5)
        if isinstance(number, AnswerFault):
            raise number
        reason = None if text else "there is no answer"
        return BaseVerifyResponse(**dict(body), reward=float(number == 7), failure_reason=reason)


async def test_a_worker_s_fault_that_verify_raises_reaches_the_row_and_the_metrics() -> None:
    assert (await verified("7", server=Composed))["reward"] == 1.0
    row = await verified("seven", server=Composed)
    detail = "int raised ValueError: invalid literal for int() with base 10: 'seven'"
    assert (row["reward"], row["answer_fault"], row["answer_fault_detail"]) == (0.0, "raised", detail)
    assert row["failure_reason"] == f"raised: {detail}"
    assert read_measurements(row)["answer_faults"] == 1.0
