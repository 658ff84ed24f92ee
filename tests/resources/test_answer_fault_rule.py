"""An answer that breaks its verifier scores 0 with its reason; a broken environment or machine is a failure."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import orjson
import pytest

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
from nemo_gym.failures import VerifierError
from nemo_gym.processes.workers import default_pool
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.verify.answers import final_text


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


async def verified(text: str, row: str = "x") -> dict[str, Any]:
    gym = InProcessGym()
    gym.add(Brittle, "env")
    reply = await gym.client().post("env", "/verify", data=json.dumps(body_of(text, row)).encode())
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
