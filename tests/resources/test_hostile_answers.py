"""Hostile answers through every environment: each gets a reward, so that none escapes its 0.

`HOSTILE_ANSWERS=1000` sends all of them; by default each environment gets a few.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from typing import Any

import orjson
import pytest

from nemo_gym.mock_engine import ModelReply, ScriptPolicy
from nemo_gym.mock_engine.policies import Scene
from nemo_gym.resources.gymnasium import GymnasiumServer
from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.testing.environment import _model_class
from nemo_gym.testing.in_process import InProcessGym
from tests.loop_steps import MOST_CPU_S, measured_steps
from tests.our_environments import OUR_ENVIRONMENTS, OurEnvironment
from tests.verify.hostile_answers import MEGABYTE, chosen_count, hostile_answers

COUNT = chosen_count(default=12)
JUDGE = {"judge_model_server": {"type": "responses_api_models", "name": "judge"}}
OPTIONS: dict[str, dict[str, Any]] = {
    "math_with_judge": {"should_use_judge": False, "library_verifier_timeout_seconds": 2},
    "equivalence_llm_judge": JUDGE,
    "rubric_judge": JUDGE,
    "text_to_sql": {"query_timeout_s": 1},
}


def server_class(environment: OurEnvironment) -> type[SimpleResourcesServer]:
    module = importlib.import_module(f"resources_servers.{environment.name}.app")
    members = (member for member in vars(module).values() if inspect.isclass(member))
    return next(
        member
        for member in members
        if issubclass(member, SimpleResourcesServer) and member.__module__ == module.__name__
    )


def attempt(row: dict[str, Any], text: str, tool: str | None) -> bytes:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    output: list[dict[str, Any]] = [
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    ]
    if tool is not None:
        output.insert(
            0, {"type": "function_call", "id": "f", "call_id": "c", "name": tool, "arguments": text}
        )
    answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": output}
    response = {**answer, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    # Python writes lone surrogates as escapes, as an engine in Python does.
    return json.dumps({**row, "response": response}).encode()


class Environment:
    """An environment in this process, its judge beside it, and sessions that send one answer each."""

    def __init__(self, environment: OurEnvironment) -> None:
        server = server_class(environment)
        gym = InProcessGym()
        gym.add(_model_class(ScriptPolicy((Scene((ModelReply(text="[[A!=B]] [[NO]]"),)),))), "judge")
        gym.add(server, "env", **OPTIONS.get(environment.name, {}))
        self.client = gym.client()
        self.is_gymnasium = issubclass(server, GymnasiumServer)
        self.row: dict[str, Any] = {"_ng_task_index": 0} | {
            key: value for key, value in environment.examples()[0].items() if key != "agent_ref"
        }
        tools = self.row["responses_create_params"].get("tools") or [{"name": None}]
        self.tool: str | None = tools[0]["name"]

    async def problem(self, number: int, text: str, tool: str | None, row: dict[str, Any]) -> str:
        """Score one answer and return why it has no reward; "" if it has one."""
        session = {"x-ng-session": f"session-{number}"}
        opening, verdict = ("/reset", "/step") if self.is_gymnasium else ("/seed_session", "/verify")
        await self.client.post("env", opening, data=json.dumps(row).encode(), headers=session)
        reply = await self.client.post("env", verdict, data=attempt(row, text, tool), headers=session)
        await self.client.post("env", "/close_session", data=b"{}", headers=session)
        if reply.ok and isinstance(orjson.loads(reply.body).get("reward"), int | float):
            return ""
        return f"{text[:40]!a}: {reply.status} {reply.body[:300]!r}"


@pytest.mark.parametrize("environment", OUR_ENVIRONMENTS, ids=lambda environment: environment.name)
async def test_every_hostile_answer_gets_a_reward(environment: OurEnvironment) -> None:
    tested = Environment(environment)
    problems = [
        await tested.problem(number, text, tested.tool if number % 2 else None, tested.row)
        for number, text in enumerate(hostile_answers(COUNT))
    ]
    assert not [problem for problem in problems if problem]


LONG = {
    "letters": "a" * MEGABYTE,
    "lines": "x\n" * (MEGABYTE // 2),
    "fences": "```\n" * (MEGABYTE // 4),
    "tildes": "~" * 50_000 + "`",
    "code": "```python\n" + "x = 1\n" * (MEGABYTE // 6) + "```",
    "brackets": "[" * MEGABYTE,
    "reasoning": "<think>a" * (MEGABYTE // 8),
    "boxes": "\\boxed{" * (MEGABYTE // 7),
}
CHECKED = {"prompt": "def f(x):\n", "entry_point": "f", "test": "def check(f):\n    assert f(1) == 1\n"}


@pytest.mark.parametrize("environment", OUR_ENVIRONMENTS, ids=lambda environment: environment.name)
async def test_no_long_answer_computes_on_the_event_loop(
    environment: OurEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = Environment(environment)
    rows = [tested.row, tested.row | {"verifier_metadata": CHECKED}][: 1 + (environment.name == "code_gen")]
    await tested.problem(0, "warm", None, tested.row)
    slow = []
    with measured_steps(monkeypatch) as steps:
        for row in rows:
            for number, (name, text) in enumerate(LONG.items(), start=1):
                await asyncio.sleep(0)  # end the step of the last answer
                steps.clear()
                assert not await tested.problem(number, text, None, row)
                await asyncio.sleep(0)
                slow += [(name, round(max(steps), 2))] * (max(steps) > MOST_CPU_S)
    assert not slow
