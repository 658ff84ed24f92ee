"""Hostile answers through every environment: each gets a reward, so that none escapes its 0.

`HOSTILE_ANSWERS=1000` sends all of them; by default each environment gets a few.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
from typing import Any

import orjson
import pytest

from nemo_gym.mock_engine import ModelReply, ScriptPolicy
from nemo_gym.mock_engine.policies import Scene
from nemo_gym.resources.gymnasium import GymnasiumServer
from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.testing.environment import _model_class
from nemo_gym.testing.in_process import InProcessGym
from tests.our_environments import OUR_ENVIRONMENTS, OurEnvironment
from tests.verify.hostile_answers import hostile_answers

COUNT = int(os.environ.get("HOSTILE_ANSWERS", "12"))
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


@pytest.mark.parametrize("environment", OUR_ENVIRONMENTS, ids=lambda environment: environment.name)
async def test_every_hostile_answer_gets_a_reward(environment: OurEnvironment) -> None:
    server = server_class(environment)
    gym = InProcessGym()
    gym.add(_model_class(ScriptPolicy((Scene((ModelReply(text="[[A!=B]] [[NO]]"),)),))), "judge")
    gym.add(server, "env", **OPTIONS.get(environment.name, {}))
    row = {"_ng_task_index": 0} | {
        key: value for key, value in environment.examples()[0].items() if key != "agent_ref"
    }
    tools = row["responses_create_params"].get("tools") or [{"name": None}]
    opening, verdict = (
        ("/reset", "/step") if issubclass(server, GymnasiumServer) else ("/seed_session", "/verify")
    )
    unscored = []
    for number, text in enumerate(hostile_answers(COUNT)):
        session = {"x-ng-session": f"session-{number}"}
        client = gym.client()
        await client.post("env", opening, data=json.dumps(row).encode(), headers=session)
        body = attempt(row, text, tools[0]["name"] if number % 2 else None)
        reply = await client.post("env", verdict, data=body, headers=session)
        if not reply.ok or not isinstance(orjson.loads(reply.body).get("reward"), int | float):
            unscored.append((ascii(text[:40]), reply.status, reply.body[:300]))
        await client.post("env", "/close_session", data=b"{}", headers=session)
    assert not unscored
