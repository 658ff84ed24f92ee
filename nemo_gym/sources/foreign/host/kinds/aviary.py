"""Environments of aviary: `aviary:gsm8k` is a data set by its name, or an environment with `options.tasks`.

`options.tasks` is a list of the arguments with which the environment is made, one entry for each task. The tools are
those that `reset` returns. A call whose arguments do not fit its tool is answered with an error, without a step: the
environment would raise, and the policy's mistake would count as a failure.
"""

from __future__ import annotations

import asyncio
import difflib
import itertools
import json
from typing import Any

from aviary.core import Environment, Message, TaskDataset, ToolCall, ToolRequestMessage, ToolResponseMessage
from aviary.env import ENV_REGISTRY, TASK_DATASET_REGISTRY

from ..faults import HostError, check_reward
from ..packages import compute_digest, describe_package

PACKAGE = "fhaviary"
OPTIONS = {"tasks", "arguments"}


def build(name: str, options: dict[str, Any]) -> AviaryTasks:
    return AviaryTasks(name, options)


class AviaryTasks:
    """The tasks of a name, and the environment that is being played."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        if unknown := set(options) - OPTIONS:
            raise HostError("bad_request", f"aviary has no options {', '.join(sorted(unknown))}")
        self._name, self._options = name, options
        self._loop = asyncio.new_event_loop()
        self._given: list[dict[str, Any]] | None = options.get("tasks")
        known = ENV_REGISTRY if self._given else TASK_DATASET_REGISTRY
        if name not in known:
            near = difflib.get_close_matches(name, known, 3) or sorted(known)
            what = "environment" if self._given else "data set"
            raise HostError("not_found", f"aviary has no {what} {name!r}, but {', '.join(near)}")
        self._dataset: Any = None
        if self._given is None:
            self._dataset = TaskDataset.from_name(name, **(options.get("arguments") or {}))
        self._environment: Any = None
        self._tools: dict[str, dict[str, Any]] = {}

    def describe(self) -> dict[str, Any]:
        package = describe_package(PACKAGE)
        tasks = self._count_tasks()
        return {
            **package,
            "name": self._name,
            "version": package["package_version"],
            "digest": compute_digest([PACKAGE], None, {"name": self._name, **self._options}),
            "loop": "ours",
            "tasks": tasks,
            "infinite": tasks is None,
            "seats": [{"name": "agent", "trainable": True}],
            "rewards": [{"name": "reward", "weight": 1.0, "range": None}],
            "reward_rule": "sum",
            "seeded": "reset",
            "needs": {"network": False, "writes": False},
            "concurrency": 1,
        }

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]:
        count = self._count_tasks()
        end = cursor + limit if count is None else min(cursor + limit, count)
        tasks = []
        for index in range(cursor, end):
            self._make(index)
            _, tools = self._run(self._environment.reset())
            self.close()
            # One without an index is made anew for every attempt, from its seed.
            data = {"index": index, **({"seed": seed + index} if count is None else {})}
            tasks.append(
                {
                    "id": f"{self._name}/{index}",
                    "tools": [describe_tool(tool) for tool in tools],
                    "data": data,
                }
            )
        return {"tasks": tasks, "cursor": None if count is not None and end >= count else end}

    def open(self, task: dict[str, Any], seed: int) -> dict[str, Any]:
        self._make(int(task["data"]["index"]))
        observed, tools = self._run(self._environment.reset())
        self._tools = {tool.info.name: tool.info.model_dump() for tool in tools}
        return {"seat": 0, "observation": join_texts(observed)}

    def step(self, seat: int, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        outputs, made = [], []
        for call in calls:
            arguments, problem = self._read_arguments(call)
            if problem is None:
                made.append(
                    ToolCall(id=call["call_id"], function={"name": call["name"], "arguments": arguments})
                )
            else:
                outputs.append({"call_id": call["call_id"], "output": json.dumps({"error": problem})})
        if calls and not made:
            return {"seat": 0, "outputs": outputs, "reward": None, "done": False}
        message = ToolRequestMessage(content=text or None, tool_calls=made)
        observed, reward, done, truncated = self._run(self._environment.step(message))
        asked = {call["call_id"] for call in calls}
        answers = [each for each in observed if isinstance(each, ToolResponseMessage)]
        for answer in answers:
            if answer.tool_call_id in asked:
                outputs.append({"call_id": answer.tool_call_id, "output": answer.content or ""})
        others = [each for each in observed if not isinstance(each, ToolResponseMessage)]
        return {
            "seat": 0,
            "outputs": outputs,
            "observation": join_texts(others) or None,
            "reward": check_reward(reward, "a step"),
            "done": bool(done),
            "truncated": bool(truncated),
        }

    def close(self) -> dict[str, Any]:
        environment, self._environment = self._environment, None
        if environment is not None:
            self._run(environment.close())
        return {}

    def _make(self, index: int) -> None:
        if self._given is not None:
            self._environment = Environment.from_name(self._name, **self._given[index])
        elif self._count_tasks() is None:
            self._environment = self._dataset.get_new_env()
        else:
            self._environment = self._dataset.get_new_env_by_idx(index)

    def _count_tasks(self) -> int | None:
        if self._given is not None:
            return len(self._given)
        try:
            return len(self._dataset)
        except TypeError:  # of a data set without an end
            return None

    def _read_arguments(self, call: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Return the arguments of a call, and why its tool cannot take them; None if it can."""
        try:
            arguments = json.loads(call["arguments"] or "{}")
        except ValueError as error:
            return {}, f"the arguments are not JSON: {error}"
        if not isinstance(arguments, dict):
            return {}, "the arguments are not a JSON object"
        schema = (self._tools.get(call["name"]) or {}).get("parameters") or {}
        known, required = schema.get("properties") or {}, schema.get("required") or []
        lacking = [name for name in required if name not in arguments]
        strange = [name for name in arguments if name not in known] if call["name"] in self._tools else []
        problems = itertools.chain(
            (f"{name} is missing" for name in lacking), (f"{name} is no parameter" for name in strange)
        )
        return arguments, "; ".join(problems) or None

    def _run(self, awaited: Any) -> Any:
        return self._loop.run_until_complete(awaited)


def describe_tool(tool: Any) -> dict[str, Any]:
    """Return a tool as the Responses API has it."""
    about = tool.info.model_dump()
    return {
        "type": "function",
        "name": about["name"],
        "description": about["description"],
        "parameters": about["parameters"] or {"type": "object", "properties": {}},
        "strict": False,
    }


def join_texts(messages: list[Message]) -> str:
    return "\n\n".join(message.content for message in messages if message.content)
