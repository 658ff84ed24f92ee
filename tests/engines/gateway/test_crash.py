"""No call is lost when the model server is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.transport import Call, Reply
from nemo_gym.transport.http import HttpTransport
from tests.engines.gateway.rollouts import WITH_TOKEN, bearer
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def model_server(folder: Path, engine_url: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "tests.engines.gateway.served", str(folder), engine_url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield (await_line(process), process)
        finally:
            process.kill()


def await_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_the_record_goes_on_after_a_kill(tmp_path: Path) -> None:
    transport = HttpTransport()
    messages: list[dict[str, Any]] = []

    async def ask(url: str, path: str, body: Any, headers: dict[str, str], method: str = "POST") -> Reply:
        sent = {**headers, "content-type": "application/json"}
        return await transport.send(url, Call(method, path, orjson.dumps(body), sent))

    async def say(url: str, key: dict[str, str], number: int) -> dict[str, Any]:
        messages.append({"role": "user", "content": f"question {number}"})
        reply = await ask(url, "/v1/chat/completions", {"messages": messages}, key)
        answer: dict[str, Any] = reply.json()
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        return answer

    options = EngineOptions(model="mock", faults=[{"do": "hang", "nth": 4}])
    async with MockEngine(options) as engine:
        with model_server(tmp_path, engine.base_url) as (url, process):
            rollout = (await ask(url, "/ng-rollouts", {"rollout_id": "r"}, WITH_TOKEN)).json()
            key = bearer(rollout)
            answers = [await say(url, key, number) for number in range(3)]
            lost = asyncio.ensure_future(ask(url, "/v1/chat/completions", {"messages": messages[:1]}, key))
            await until(lambda: engine.stats.in_flight)
            process.kill()
            await asyncio.gather(lost, return_exceptions=True)
        with model_server(tmp_path, engine.base_url) as (url, _):
            assert (await ask(url, "/ng-rollouts", {"rollout_id": "r"}, WITH_TOKEN)).json() == rollout
            retry = {**key, "x-stainless-retry-count": "1"}
            again = await ask(url, "/v1/chat/completions", {"messages": messages[:5]}, retry)
            assert again.json() == answers[2]  # the client did not get it before the kill
            answers.append(await say(url, key, 3))
            record = (await ask(url, "/ng-rollouts/r", None, WITH_TOKEN, "GET")).json()
    await transport.close()
    assert [call["response"] for call in record["calls"]] == answers
    parents = [node["parent"] for node in record["tree"]["nodes"].values()]
    assert parents == [None, *list(record["tree"]["nodes"])[:3]]
    assert record["masked"] == {}
    assert sum(len(segment["calls"]) for segment in record["segments"]) == 4
