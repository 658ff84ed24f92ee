"""Environments of OpenEnv: `openenv:FOLDER`, a folder as `openenv init` writes it (`openenv.yaml`, `server/app.py`).

Their own server runs in this process, on a loopback port of the sandbox's network, and their own client talks to it:
one web socket is one episode. The tools of an MCP environment are the policy's tools. Any other environment has one
tool, `act`, whose parameters are the fields of its action; if that is one text, a plain answer is the action, too.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from openenv.core import GenericEnvClient

from ..app_server import start_server
from ..faults import HostError, check_reward
from ..packages import compute_digest, describe_package

PACKAGE = "openenv"
OPTIONS = {"reset"}
TOOL = "act"
_ASK_S = 60.0
_OWN_FIELDS = ("metadata", "done", "reward")


def build(name: str, options: dict[str, Any]) -> OpenEnvTasks:
    return OpenEnvTasks(name, options)


def load_app(folder: Path) -> Any:
    """Return the application of an environment. Raises `HostError` if the folder has none, or cannot be read."""
    try:
        return import_app(folder)
    except PermissionError as error:
        told = f"the user of a host cannot read {error.filename}: chmod -R o+rX {folder}"
        raise HostError("not_found", told) from error


def import_app(folder: Path) -> Any:
    """Import what `openenv.yaml` names. Raises `HostError` without it, or if a package is missing."""
    described = folder / "openenv.yaml"
    if not described.is_file():
        raise HostError("not_found", f"{folder} has no openenv.yaml")
    about = yaml.safe_load(described.read_text(encoding="utf-8")) or {}
    module, _, attribute = str(about.get("app") or "server.app:app").partition(":")
    sys.path[:0] = [str(folder), str(folder.parent)]
    try:
        return getattr(importlib.import_module(module), attribute or "app")
    except ModuleNotFoundError as error:
        raise HostError(
            "not_found", f"{folder.name} needs the package {error.name}, which its lock lacks"
        ) from error


class OpenEnvTasks:
    """An environment, its server, and the episode that is being played."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        if unknown := set(options) - OPTIONS:
            raise HostError("bad_request", f"openenv has no options {', '.join(sorted(unknown))}")
        self._folder = Path(name)
        self._options = options
        self._app = load_app(self._folder)
        self._url = start_server(self._app)
        self._loop = asyncio.new_event_loop()
        self._client: Any = None
        self._action = self._read_action()
        self._is_mcp = "tool_name" in self._action["properties"]
        self._tools = self._list_tools()

    def describe(self) -> dict[str, Any]:
        package = describe_package(PACKAGE)
        about = yaml.safe_load((self._folder / "openenv.yaml").read_text(encoding="utf-8"))
        return {
            **package,
            "license": None,  # the folder's, which its files state
            "source": str(about.get("name") or self._folder.name),
            "name": self._folder.name,
            "version": str(about.get("version") or package["package_version"]),
            "digest": compute_digest([PACKAGE], self._folder, self._options),
            "loop": "ours",
            "tasks": None,
            "infinite": True,
            "seats": [{"name": "agent", "trainable": True}],
            "rewards": [{"name": "reward", "weight": 1.0, "range": None}],
            "reward_rule": "sum",
            "seeded": "reset",
            "needs": {"network": False, "writes": False},
            "concurrency": 1,
        }

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]:
        seeds = range(seed + cursor, seed + cursor + limit)
        name = self._folder.name
        tasks = [{"id": f"{name}/{each}", "tools": self._tools, "data": {"seed": each}} for each in seeds]
        return {"tasks": tasks, "cursor": cursor + limit}

    def open(self, task: dict[str, Any], seed: int) -> dict[str, Any]:
        self.close()
        self._client = self._new_client()
        self._run(self._client.connect)
        arguments = {"seed": seed, **(self._options.get("reset") or {})}
        result = self._run(self._client.reset, **arguments)
        return {"seat": 0, "observation": describe_observation(result.observation)}

    def step(self, seat: int, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        if not calls:
            field = self._find_text_field()
            if field is None:
                return {"seat": 0, "observation": "No tool was called. Call one to go on.", "done": False}
            moved = self._act({field: text})
            return {**moved, "observation": moved["output"] if not moved["done"] else None}
        outputs: list[dict[str, Any]] = []
        moved = {"done": False}
        rewards: list[float] = []
        for call in calls:
            moved = self._call(call)
            outputs.append({"call_id": call["call_id"], "output": moved["output"]})
            rewards += [] if moved["reward"] is None else [moved["reward"]]
            if moved["done"]:
                break
        reward = sum(rewards) if rewards else None
        return {"seat": 0, "outputs": outputs, "reward": reward, "done": moved["done"]}

    def close(self) -> dict[str, Any]:
        client, self._client = self._client, None
        if client is not None:
            self._run(client.disconnect)
        return {}

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        try:
            arguments = json.loads(call["arguments"] or "{}")
        except ValueError as error:
            return refuse(f"the arguments are not JSON: {error}")
        if self._is_mcp:
            return self._act({"type": "call_tool", "tool_name": call["name"], "arguments": arguments})
        if call["name"] != TOOL:
            return refuse(f"there is no tool {call['name']}")
        return self._act(arguments)

    def _act(self, action: dict[str, Any]) -> dict[str, Any]:
        """Take a step. An action that the environment refuses is told to the policy."""
        try:
            result = self._run(self._client.step, action)
        except RuntimeError as error:
            if "VALIDATION_ERROR" in str(error) or "EXECUTION_ERROR" in str(error):
                return refuse(str(error))
            raise
        reward = None if result.reward is None else check_reward(result.reward, "a step")
        output = describe_observation(result.observation)
        return {"seat": 0, "output": output, "reward": reward, "done": bool(result.done)}

    def _new_client(self) -> Any:
        return GenericEnvClient(base_url=self._url)

    def _read_action(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._url}/schema", timeout=_ASK_S) as answer:
            schema: dict[str, Any] = json.load(answer)["action"]
        schema["properties"] = {
            name: value for name, value in (schema.get("properties") or {}).items() if name != "metadata"
        }
        return schema

    def _find_text_field(self) -> str | None:
        """Return the only field of an action, if it is a text; None for other actions."""
        fields = list(self._action["properties"].items())
        return fields[0][0] if len(fields) == 1 and fields[0][1].get("type") == "string" else None

    def _list_tools(self) -> list[dict[str, Any]]:
        if not self._is_mcp:
            parameters = {**self._action, "type": "object"}
            return [build_tool(TOOL, "Act in the environment.", parameters)]
        client = self._new_client()
        self._run(client.connect)
        try:
            self._run(client.reset)
            listed = self._run(client.step, {"type": "list_tools"}).observation
        finally:
            self._run(client.disconnect)
        return [
            build_tool(tool["name"], tool.get("description") or "", tool.get("input_schema") or {})
            for tool in listed["tools"]
        ]

    def _run(self, method: Any, *arguments: Any, **named: Any) -> Any:
        """Call a method of a client within the event loop, which makes it an asynchronous one."""

        async def call() -> Any:
            return await method(*arguments, **named)

        return self._loop.run_until_complete(call())


def refuse(reason: str) -> dict[str, Any]:
    """Return the answer to a call that is no step."""
    return {"seat": 0, "output": json.dumps({"error": reason}), "reward": None, "done": False}


def build_tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as the Responses API has it."""
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": {}, **parameters},
        "strict": False,
    }


def describe_observation(observation: Any) -> str:
    """Return an observation as JSON, without what is the gym's business."""
    if isinstance(observation, dict):
        observation = {name: value for name, value in observation.items() if name not in _OWN_FIELDS}
    return json.dumps(observation, default=str)
