"""The outcome and the session of an episode under all failures."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.episodes.driver import parse_row
from nemo_gym.failures import Boundary, Failure, InputError, TransportError
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport import Call, Reply
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import VERIFY, CounterEnvironment, ScriptedModel, call, task_row, text
from tests.waiting import until

CUT = {"output": [text("cut")], "incomplete_details": {"reason": "max_output_tokens"}}
ADD = call("add", '{"amount": 2}')


class Gym(InProcessGym):
    """An agent, an environment, a model; `send` can be spoilt."""

    def __init__(self, turns: list[Any], **agent_options: Any) -> None:
        super().__init__()
        environment, model = self.add(CounterEnvironment, "env"), self.add(ScriptedModel, "policy_model")
        assert isinstance(environment, CounterEnvironment)
        assert isinstance(model, ScriptedModel)
        self.environment = environment
        model.turns = turns
        self.add(
            SimpleAgent,
            "agent",
            resources_server={"type": "resources_servers", "name": "env"},
            model_server={"type": "responses_api_models", "name": "policy_model"},
            **agent_options,
        )

    def spoil(self, path: str, error: Exception, *, executed: bool) -> list[Call]:
        """Let calls to `path` fail, after or instead of their execution; the calls that were sent there."""
        send, sent = self.transport.send, []

        async def spoilt(base_url: str, call: Call) -> Reply:
            if call.path != path:
                return await send(base_url, call)
            sent.append(call)
            if executed:
                await send(base_url, call)
            raise error

        self.transport.send = spoilt  # type: ignore[method-assign]
        return sent

    async def failure(self, row: dict[str, Any]) -> Failure:
        with pytest.raises(UpstreamError) as caught:
            await self.run("agent", row)
        assert b"reward" not in caught.value.response_content
        assert caught.value.failure is not None
        return caught.value.failure


# --- Truncation -------------------------------------------------------------------------------------------------


async def test_a_truncated_attempt_is_verified_by_default() -> None:
    row = await Gym([[ADD], CUT]).run("agent", task_row())
    assert (row["_ng_outcome"], row["reward"]) == ("truncated", 2.0)
    assert "_ng_masked" not in row


async def test_a_context_overflow_keeps_what_came_before() -> None:
    row = await Gym([[ADD], "overflow"]).run("agent", task_row())
    assert (row["_ng_outcome"], row["_ng_end_reason"], row["reward"]) == (
        "truncated",
        "context_overflow",
        2.0,
    )
    assert [item["type"] for item in row["response"]["output"]] == ["function_call", "function_call_output"]


async def test_zero_calls_no_verifier() -> None:
    gym = Gym([[ADD], CUT], on_truncation="zero")
    gym.environment.verify_error = "the verifier was called"
    row = await gym.run("agent", task_row())
    assert (row["_ng_outcome"], row["reward"]) == ("truncated", 0.0)


async def test_mask_scores_and_excludes_from_training() -> None:
    row = await Gym([[ADD], CUT], on_truncation="mask").run("agent", task_row())
    assert (row["reward"], row["_ng_masked"], row["mask_sample"]) == (2.0, True, True)


async def test_a_row_can_override_on_truncation() -> None:
    row = await Gym([[ADD], CUT], on_truncation="mask").run("agent", task_row(on_truncation="zero"))
    assert (row["reward"], "_ng_masked" in row) == (0.0, False)
    failure = await Gym([[ADD], CUT]).failure(task_row(on_truncation="ignore"))
    assert (failure.code, failure.param) == ("invalid_row", "on_truncation")


@pytest.mark.parametrize("policy", ["zero", "mask"])
async def test_what_came_to_its_end_is_scored_whatever_the_policy(policy: str) -> None:
    row = await Gym([[ADD], [text("two")]], on_truncation=policy).run("agent", task_row())
    assert (row["_ng_outcome"], row["reward"], "_ng_masked" in row) == ("completed", 2.0, False)


# --- Numbers ----------------------------------------------------------------------------------------------------


class ExactRequest(BaseVerifyRequest, extra="allow"):
    pass


class ExactAnswer(BaseVerifyResponse, extra="allow"):
    pass


class Exact(CounterEnvironment):
    """Its verifier answers with long integers, and with what it was given."""

    async def verify(self, body: ExactRequest) -> ExactAnswer:  # type: ignore[override]
        seen = str((body.model_extra or {}).get("given"))
        made = {"count": 10**30, "deep": {"n": [-(1 << 70)]}, "seen": seen}
        return ExactAnswer(**{**body.model_dump(), **made, "reward": 1.0})


def exact_gym() -> Gym:
    gym = Gym([[text("done")]])
    gym.add(Exact, "env")
    return gym


async def test_long_integers_of_a_verifier_reach_the_row_as_they_are() -> None:
    row = await exact_gym().run("agent", task_row())
    assert (row["count"], row["deep"]) == (10**30, {"n": [-(1 << 70)]})


async def test_long_integers_pass_through_verify_as_they_are() -> None:
    app = Exact.standalone(name="env").setup_webserver()
    given = {**VERIFY, "given": 1 << 70, "other": [10**30]}
    answer = json.loads(TestClient(app).post("/verify", content=json.dumps(given)).content)
    assert (answer["seen"], answer["given"], answer["other"]) == (str(1 << 70), 1 << 70, [10**30])


@pytest.mark.parametrize(
    ("extra", "told"),
    [({"n": [1, 1 << 64]}, "`n[1]` of the task row"), ({"n": -(1 << 63) - 1}, "`n` of the task row"),
     ({"n": json.loads("[" * 300 + "]" * 300)}, "has 301 levels")],
)  # fmt: skip
async def test_a_row_whose_numbers_or_depth_a_server_cannot_keep_is_refused(extra: Any, told: str) -> None:
    gym = exact_gym()
    call_of = Call(
        "POST", "/run", json.dumps({**task_row(), **extra}).encode(), {"content-type": "application/json"}
    )
    reply = await gym.transport.send(f"http://127.0.0.1:{gym.servers['agent'].config.port}", call_of)
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (422, "invalid_row")
    assert told in json.loads(reply.body)["error"]["message"]


# --- Broken connections -----------------------------------------------------------------------------------------


def broken(code: str) -> TransportError:
    return TransportError(f"{code} happened", code=code, retryable=True)


async def test_a_tool_whose_answer_was_lost_is_not_called_again_and_fails_the_attempt() -> None:
    gym = Gym([[ADD], [text("two")]])
    sent = gym.spoil("/add", broken("disconnected"), executed=True)
    failure = await gym.failure(task_row())
    assert (failure.boundary, failure.code) == (Boundary.TRANSPORT, "ambiguous_delivery")
    assert failure.retryable, "another attempt has a session of its own"
    assert "POST /add may have been executed" in failure.message
    assert len(sent) == 1
    assert len(gym.environment.closed) == 1


@pytest.mark.parametrize("path", ["/seed_session", "/verify"])
@pytest.mark.parametrize("code", ["answer_timeout", "untrusted", "redirected"])
async def test_a_call_without_an_answer_names_its_step(path: str, code: str) -> None:
    gym = Gym([[text("hi")]])
    gym.spoil(path, TransportError(f"{code} happened", code=code), executed=False)
    failure = await gym.failure(task_row())
    assert failure.code == code
    assert failure.message == f"{code} happened (at {path})"


async def test_a_server_that_restarted_before_verify_names_the_step_and_no_session() -> None:
    gym = Gym([[text("hi")]])
    send = gym.transport.send

    async def restarting(base_url: str, call: Call) -> Reply:
        if call.path == "/verify":
            gym.environment.middleware.access.incarnation = "another"
        return await send(base_url, call)

    gym.transport.send = restarting  # type: ignore[method-assign]
    failure = await gym.failure(task_row())
    assert failure.code == "session_lost"
    assert "was restarted before /verify was called" in failure.message
    assert "log" in (failure.remedy or "")


async def test_a_session_whose_opening_was_lost_is_closed_all_the_same() -> None:
    gym = Gym([[text("hi")]])
    gym.spoil("/seed_session", broken("disconnected"), executed=True)
    assert (await gym.failure(task_row())).code == "disconnected"
    assert len(gym.environment.closed) == 1
    assert len(gym.environment.middleware.access.sessions) == 0


async def test_a_session_that_is_cancelled_while_it_opens_is_closed() -> None:
    gym = Gym([[text("hi")]])
    opened = asyncio.Event()
    send = gym.transport.send

    async def slow(base_url: str, call: Call) -> Reply:
        reply = await send(base_url, call)
        if call.path == "/seed_session":
            opened.set()
            await asyncio.sleep(30)
        return reply

    gym.transport.send = slow  # type: ignore[method-assign]
    attempt = asyncio.create_task(gym.run("agent", task_row()))
    await opened.wait()
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    assert len(gym.environment.closed) == 1


async def test_a_verifier_whose_answer_was_lost_is_asked_again() -> None:
    gym = Gym([[ADD], [text("two")]])
    send = gym.transport.send
    lost: list[Reply] = []

    async def losing(base_url: str, call: Call) -> Reply:
        reply = await send(base_url, call)
        if call.path == "/verify" and not lost:
            lost.append(reply)
            raise broken("disconnected")
        return reply

    gym.transport.send = losing  # type: ignore[method-assign]
    assert (await gym.run("agent", task_row()))["reward"] == 2.0
    assert len(lost) == 1


async def test_a_closing_that_is_not_answered_is_asked_for_again() -> None:
    gym = Gym([[text("hi")]])
    send = gym.transport.send
    hung: list[Call] = []

    async def hanging(base_url: str, call: Call) -> Reply:
        if call.path == "/close_session" and not hung:
            hung.append(call)
            await asyncio.sleep(60)
        return await send(base_url, call)

    gym.transport.send = hanging  # type: ignore[method-assign]
    assert (await gym.run("agent", task_row()))["reward"] == 0.0
    assert len(hung) == 1
    assert len(gym.environment.closed) == 1


async def test_a_session_is_closed_although_the_attempt_is_cancelled_while_it_closes() -> None:
    gym = Gym([[text("hi")]])
    send = gym.transport.send
    closing = asyncio.Event()

    async def slow(base_url: str, call: Call) -> Reply:
        if call.path == "/close_session":
            closing.set()
            await asyncio.sleep(0.05)
        return await send(base_url, call)

    gym.transport.send = slow  # type: ignore[method-assign]
    attempt = asyncio.create_task(gym.run("agent", task_row()))
    await closing.wait()
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    assert not gym.environment.closed
    await until(lambda: len(gym.environment.closed) == 1)


async def test_a_posted_row_brings_no_marks_of_an_earlier_result() -> None:
    marks = {"_ng_masked": True, "_ng_reverified": {"reward_before": 0}, "_ng_failure_class": "judge_failed"}
    row = await exact_gym().run("agent", {**task_row(), **marks})
    assert not marks.keys() & row.keys()
    assert row["_ng_outcome"] == "completed"


@pytest.mark.parametrize(
    ("body", "told"),
    [(b"{", "not JSON"), (b"[]", "needs `responses_create_params`"), (b"{}", "needs `responses_create_params`"),
     (b'{"responses_create_params":{"input":5}}', "an `input` that is a string or a list")],
)  # fmt: skip
def test_a_body_that_is_no_task_row_is_refused(body: bytes, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_row(body)


@pytest.mark.parametrize(("answer", "told"), [(b"no JSON", "not JSON"), (b"[1]", "not a JSON object")])
async def test_a_verifier_that_answers_no_object_gave_no_reward(answer: bytes, told: str) -> None:
    gym = Gym([[text("hi")]])
    send = gym.transport.send

    async def odd(base_url: str, call: Call) -> Reply:
        reply = await send(base_url, call)
        return Reply(200, reply.headers, answer) if call.path == "/verify" else reply

    gym.transport.send = odd  # type: ignore[method-assign]
    with pytest.raises(UpstreamError, match=f"gave no reward: its response is {told}"):
        await gym.run("agent", task_row())


async def test_a_session_that_cannot_be_closed_does_not_fail_the_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gym = Gym([[text("hi")]])
    tried = gym.spoil("/close_session", TimeoutError(), executed=False)
    assert (await gym.run("agent", task_row()))["reward"] == 0.0
    assert len(tried) == 2
    assert "could not close a session: no answer within" in caplog.text
