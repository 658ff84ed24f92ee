"""The verbs on a gym's servers, whose agents a program calls by itself: on real servers, by the head's routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession

from nemo_gym.mock_engine._distributions import parse_distribution
from nemo_gym.serving.browser_requests import BrowserCheck
from nemo_gym.transport import Caller
from tests.client.gyms import AGENT, TOKEN, LoopbackGym, rows, running_gym
from tests.waiting import until

SERVERS = "/_ng/runs/servers"


class Asker:
    """Requests to the head server."""

    def __init__(self, url: str, client: ClientSession) -> None:
        self._url, self._client = url, client

    async def ask(self, verb: str = "", headers: dict[str, str] | None = None, **body: Any) -> Any:
        """Return the status and the JSON of the answer."""
        given = {"x-ng-token": TOKEN} if headers is None else headers
        url = self._url + SERVERS + (f"/{verb}" if verb else "")
        sent = (
            self._client.post(url, json=body, headers=given) if verb else self._client.get(url, headers=given)
        )
        async with sent as answer:
            return answer.status, await answer.json()

    async def state(self) -> dict[str, Any]:
        status, told = await self.ask()
        assert status == 200, told
        found: dict[str, Any] = told
        return found

    async def change(self, verb: str, **body: Any) -> dict[str, Any]:
        status, told = await self.ask(verb, **body)
        assert status == 200, told
        found: dict[str, Any] = told
        return found


@asynccontextmanager
async def controlled(latency_s: float = 0.2) -> AsyncIterator[tuple[LoopbackGym, Asker, Caller]]:
    async with (
        running_gym(latency_s=parse_distribution(str(latency_s))) as gym,
        ClientSession() as client,
    ):
        gym.head.middleware.browsers = BrowserCheck()  # as a server process has it
        asker = Asker(gym.url, client)
        await asker.state()  # from the first request on, attempts are seen
        yield gym, asker, gym.gym.client().caller()
        await asker.ask("resume")  # the clock of this process is that of other tests


def run(caller: Caller, number: int) -> asyncio.Task[Any]:
    """A program's own call of the agent."""
    row = {"_ng_task_index": number, "_ng_rollout_index": 0, **rows(number + 1)[number]}
    return asyncio.create_task(caller.call(AGENT, "POST", "/run", body=orjson.dumps(row)))


async def test_a_pause_holds_calls_that_come_and_lets_those_in_flight_go_on() -> None:
    async with controlled() as (gym, asker, caller):
        first = run(caller, 0)
        await until(lambda: gym.engine.stats.in_flight == 1)
        assert list((await asker.state())["in_flight"]) == ["0/0"]
        tried = await asker.change("pause", dry_run=True)
        assert tried["changes"]
        assert (await asker.state())["phase"] == "running"
        assert (await asker.change("pause", by="a test"))["phase"] == "paused"
        second = run(caller, 1)
        assert (await first).json()["_ng_outcome"] == "completed"
        requests = gym.engine.stats.requests.copy()
        async with asyncio.timeout(60):
            while (await asker.state())["counts"]["waiting"] == 0:  # noqa: ASYNC110 - in another server
                await asyncio.sleep(0.01)
        assert gym.engine.stats.requests == requests, "the second call waits"
        assert not second.done()
        await asker.change("resume")
        assert (await second).json()["_ng_outcome"] == "completed"
        assert (await asker.state())["is_touched"] is False


async def test_the_attempts_of_a_run_with_its_own_control_pass() -> None:
    async with controlled(0.0) as (gym, asker, _), ClientSession() as client:
        await asker.change("pause")
        body = {"rows": rows(2), "num_repeats": 1}
        async with client.post(f"{gym.url}/rollouts", json=body, headers={"x-ng-token": TOKEN}) as answer:
            lines = (await answer.text()).splitlines()
        assert len(lines) == 3
        assert '"end":"complete"' in lines[-1]


async def test_one_attempt_is_cancelled_and_its_session_closed() -> None:
    async with controlled(30.0) as (gym, asker, caller):
        calls = [run(caller, number) for number in range(2)]
        await until(lambda: gym.engine.stats.in_flight == 2)
        told = await asker.change("cancel", rollouts=["1/0"])
        assert "rollout 1/0" in told["changes"][0]
        reply = await calls[1]
        assert (reply.status, reply.json()["error"]["code"]) == (499, "cancelled_by_control")
        await until(lambda: gym.engine.stats.in_flight == 1 and gym.open_sessions == 1)
        status, refused = await asker.ask("cancel", rollouts=["7/0"])
        assert (status, refused["error"]["code"]) == (409, "not_in_flight")
        calls[0].cancel()


async def test_fewer_attempts_at_once_let_others_wait() -> None:
    async with controlled() as (gym, asker, caller):
        await asker.change("set", num_samples_in_parallel=1)
        calls = [run(caller, number) for number in range(3)]
        for reply in await asyncio.gather(*calls):
            assert reply.json()["_ng_outcome"] == "completed"
        assert gym.engine.stats.peak_in_flight == 1
        told = await asker.change("set", num_samples_in_parallel="auto")
        assert told["changes"] == ["num_samples_in_parallel: 1 -> auto"]


async def test_a_limit_of_time_holds_for_attempts_that_start_later() -> None:
    async with controlled(60.0) as (gym, asker, caller):
        first = run(caller, 0)
        await until(lambda: gym.engine.stats.in_flight == 1)
        await asker.change("set", rollout_timeout_s=0.2)
        reply = await run(caller, 1)
        assert (reply.status, reply.json()["error"]["type"]) == (504, "deadline")
        assert not first.done()
        first.cancel()


async def test_a_drained_gym_takes_no_attempt() -> None:
    async with controlled() as (gym, asker, caller):
        first = run(caller, 0)
        await until(lambda: gym.engine.stats.in_flight == 1)
        assert (await asker.change("drain"))["phase"] == "draining"
        reply = await run(caller, 1)
        assert (reply.status, reply.json()["error"]["code"]) == (503, "gym_draining")
        assert (await first).json()["_ng_outcome"] == "completed"
        for verb in ("pause", "resume", "requeue"):
            status, refused = await asker.ask(verb)
            assert (status, refused["error"]["code"]) == (409, "run_draining")


@pytest.mark.parametrize(
    ("verb", "body", "status", "message"),
    [
        ("requeue", {}, 409, "its callers attempt failed rows again"),
        ("set", {"max_attempts": 3}, 422, "`max_attempts` is not of the servers"),
        ("set", {}, 422, "`set` needs a value"),
        ("stop", {}, 404, "no route POST"),
    ],
)
async def test_a_mistake_says_what_the_servers_do_not_do(
    verb: str, body: dict[str, Any], status: int, message: str
) -> None:
    async with controlled(0.0) as (_, asker, _):
        answered, told = await asker.ask(verb, **body)
        assert (answered, message in told["error"]["message"]) == (status, True), told


async def test_without_the_token_and_for_foreign_pages_nothing_is_controlled() -> None:
    async with controlled(0.0) as (_, asker, _):
        assert (await asker.ask("pause", headers={}))[0] == 401
        assert (await asker.ask("pause", headers={"x-ng-token": "another"}))[0] == 401
        foreign = {"x-ng-token": TOKEN, "origin": "https://evil.example"}
        assert (await asker.ask("pause", headers=foreign))[0] == 403
        assert (await asker.state())["phase"] == "running"
