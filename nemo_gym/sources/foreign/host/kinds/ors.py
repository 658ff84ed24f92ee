"""Environments of Open Reward Standard: `ors:URL`, a server that runs already, or `ors:FOLDER` with a `server.py`.

The server of a folder runs in this process, on a loopback port of the sandbox's network. That of a URL is at the other
end of a socket (the variable `GYM_SOCKET`). Both are asked by HTTP, so that one adapter serves both: a session is one
attempt, its task is given by content, and its tools and messages are asked for after it has been opened. The reward is
the sum of those that the tools gave. An episode in which none gave one has no reward.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from ..app_server import start_server
from ..faults import HostError, check_reward
from ..packages import compute_digest, describe_package
from ..remote import Remote

PACKAGE = "openreward"
OPTIONS = {"environment", "toolset"}
_PAGE = 100
_PING_S = 30.0
_NO_CALL = "No tool was called. Call one to go on."


def build(name: str, options: dict[str, Any]) -> OrsTasks:
    return OrsTasks(name, options)


class OrsTasks:
    """An environment of a server, and the session that is open."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        if unknown := set(options) - OPTIONS:
            raise HostError("bad_request", f"ors has no options {', '.join(sorted(unknown))}")
        self._name, self._options = name, options
        self._folder = None if name.startswith(("http://", "https://")) else Path(name)
        if self._folder is None:
            self._remote = Remote(name, os.environ.get("GYM_SOCKET"))
        else:
            self._remote = Remote(start_server(load_app(self._folder)))
        self._environment = self._choose(options.get("environment"))
        self._tools = self._remote.ask("GET", f"/{self._environment}/tools")
        splits = self._remote.ask("GET", f"/{self._environment}/splits")
        self._splits: dict[str, int] = {split["name"]: self._count(split["name"]) for split in splits}
        self._session: OrsSession | None = None

    def describe(self) -> dict[str, Any]:
        return {
            **self._describe_origin(),
            "name": self._environment,
            "loop": "ours",
            "tasks": sum(self._splits.values()),
            "infinite": False,
            "splits": self._splits,
            "seats": [{"name": "agent", "trainable": True}],
            "rewards": [{"name": "reward", "weight": 1.0, "range": None}],
            "reward_rule": "sum",
            "seeded": "none",
            "needs": {"network": self._folder is None, "writes": False},
            "concurrency": 1,
        }

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]:
        chosen = self._choose_split(split)
        end = min(cursor + min(limit, _PAGE), self._splits[chosen])
        page = {"split": chosen, "start": cursor, "stop": end}
        specs = self._remote.ask("POST", f"/{self._environment}/task_range", page)["tasks"]
        tasks = [
            {
                "id": f"{self._environment}/{chosen}/{index}",
                "split": chosen,
                "data": {"split": chosen, "index": index, "spec": spec},
            }
            for index, spec in enumerate(specs, cursor)
        ]
        return {"tasks": tasks, "cursor": end if end < self._splits[chosen] else None}

    def open(self, task: dict[str, Any], seed: int) -> dict[str, Any]:
        self.close()
        data = task["data"]
        by_place = {"split": data.get("split"), "index": data.get("index")}
        given = {"task_spec": data["spec"]} if "spec" in data else by_place
        toolset = self._options.get("toolset")
        self._session = OrsSession(self._remote, self._environment)
        self._session.create({**given, **({"toolset_name": toolset} if toolset else {})})
        tools = self._session.list_tools()
        opening = {"input": self._session.read_messages(), "tools": tools}
        return {"seat": 0, "observation": None, "info": {"opening": opening}}

    def step(self, seat: int, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        assert self._session is not None
        return self._session.call_tools(calls) if calls else self._session.say(text)

    def close(self) -> dict[str, Any]:
        session, self._session = self._session, None
        if session is not None:
            session.close()
        return {}

    def _choose(self, wanted: str | None) -> str:
        """Return the name of the environment that the options name, else of the first one, as ORS does."""
        names: list[str] = self._remote.ask("GET", "/list_environments")
        if not isinstance(names, list) or not names:
            raise HostError("not_found", f"{self._name} lists no environments of Open Reward Standard")
        chosen = str(wanted or names[0]).lower()
        if chosen not in names:
            raise HostError(
                "not_found", f"{self._name} has no environment {wanted!r}, but {', '.join(names)}"
            )
        return chosen

    def _choose_split(self, split: str | None) -> str:
        counted = ", ".join(f"{name} ({count} tasks)" for name, count in self._splits.items())
        if split is None and len(self._splits) == 1:
            return next(iter(self._splits))
        if split is None:
            raise HostError("bad_request", f"name one of its splits, {counted}: +split=NAME")
        if split not in self._splits:
            raise HostError("not_found", f"it has no split {split!r}, but {counted}")
        return split

    def _count(self, split: str) -> int:
        found = self._remote.ask("POST", f"/{self._environment}/num_tasks", {"split": split})
        return int(found["num_tasks"])

    def _describe_origin(self) -> dict[str, Any]:
        if self._folder is not None:
            digest = compute_digest([PACKAGE], self._folder, self._options)
            package = describe_package(PACKAGE)
            own = {"license": None, "source": self._folder.name, "version": package["package_version"]}
            return {**package, **own, "digest": digest}
        about = json.dumps([self._environment, self._options, self._tools], sort_keys=True)
        return {
            "source": self._name,
            "version": self._read_version(),
            "digest": hashlib.sha256(about.encode()).hexdigest(),
        }

    def _read_version(self) -> str | None:
        try:
            version = self._remote.ask("GET", "/version")["version"]
        except HostError as error:
            if error.code == "not_found":  # of servers that are not openreward's
                return None
            raise
        return str(version)


class OrsSession:
    """One attempt at a server. A thread keeps it alive while the policy thinks."""

    def __init__(self, remote: Remote, environment: str) -> None:
        self._remote, self._environment = remote, environment
        text, task = remote.follow("/create_session", {}, {})
        self._headers = {"X-Session-ID": json.loads(text)["sid"] if text else task}
        self._terminal: dict[str, Any] | None = None
        self._is_over = threading.Event()

    def create(self, task: dict[str, Any]) -> None:
        self._remote.ask("POST", "/create", {"env_name": self._environment, **task}, self._headers)
        threading.Thread(target=self._ping, daemon=True, name="ping").start()

    def list_tools(self) -> list[dict[str, Any]]:
        """Return the tools of this task as the Responses API has them."""
        found = self._ask_either("task_tools", "tools")
        self._terminal = found.get("terminal_tool")
        return [
            {
                "type": "function",
                "name": tool["name"],
                "description": tool.get("description") or "",
                "parameters": tool.get("input_schema") or {"type": "object", "properties": {}},
                "strict": False,
            }
            for tool in found["tools"]
        ]

    def read_messages(self) -> list[dict[str, Any]]:
        """Return the conversation of this task as the Responses API has it."""
        found = self._ask_either("messages", "prompt")
        messages = [{"role": "user", "blocks": found}] if found and "role" not in found[0] else found
        return [item for message in messages for item in build_items(message["role"], message["blocks"])]

    def call_tools(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        moves = [self._call(call["name"], call["arguments"]) for call in calls]
        outputs = [
            {"call_id": call["call_id"], "output": move["text"]}
            for call, move in zip(calls, moves, strict=True)
        ]
        return self._end_step(moves, outputs=outputs)

    def say(self, text: str) -> dict[str, Any]:
        """Take an answer without calls, which ends the attempt if the environment has a terminal tool."""
        if self._terminal is None:
            return {"seat": 0, "observation": _NO_CALL, "reward": None, "done": False}
        field = self._terminal.get("arg")
        arguments = json.dumps({} if field is None else {field: text})
        move = self._call(self._terminal["name"], arguments)
        if move["is_refused"]:
            return self._end_step([move], observation=move["text"])
        return self._end_step([{**move, "done": True}])

    def close(self) -> None:
        self._is_over.set()
        self._remote.ask("POST", "/delete", None, self._headers)
        self._remote.ask("POST", "/delete_session", None, self._headers)

    def _call(self, name: str, arguments: str) -> dict[str, Any]:
        """Call a tool. A call that the server refuses is told to the policy, and is no step."""
        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            return refuse(f"the arguments are not JSON: {error}")
        if not isinstance(given, dict):
            return refuse("the arguments are not a JSON object")
        body = {"name": name, "input": given}
        text, _ = self._remote.follow(f"/{self._environment}/call", body, self._headers)
        answer = json.loads(text)
        if not answer["ok"]:
            return refuse(answer["error"], answer.get("reason"))
        output = answer["output"]
        reward = output.get("reward")
        return {
            "text": join_texts(output["blocks"]),
            "reward": None if reward is None else check_reward(reward, f"a call of {name}"),
            "done": bool(output.get("finished")),
            "is_refused": False,
            "metadata": output.get("metadata"),
        }

    def _end_step(self, moves: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        rewards = [move["reward"] for move in moves if move["reward"] is not None]
        told = [move["metadata"] for move in moves if move.get("metadata") is not None]
        return {
            "seat": 0,
            "reward": sum(rewards) if rewards else None,
            "done": any(move["done"] for move in moves),
            **({"info": {"metadata": told}} if told else {}),
            **fields,
        }

    def _ask_either(self, name: str, older: str) -> Any:
        """Ask for what newer servers have, and for its predecessor where the server does not know it."""
        try:
            return self._remote.ask("GET", f"/{self._environment}/{name}", None, self._headers)
        except HostError as error:
            if error.code != "not_found":
                raise
        return self._remote.ask("GET", f"/{self._environment}/{older}", None, self._headers)

    def _ping(self) -> None:
        while not self._is_over.wait(_PING_S):
            try:
                self._remote.ask("POST", "/ping", None, self._headers)
            except HostError:  # the next call of a tool says so
                return


def refuse(error: str, reason: str | None = None) -> dict[str, Any]:
    """Return the answer to a call that did not run. After the end of an episode no other call runs, either."""
    told = {"error": error, **({"reason": reason} if reason else {})}
    done = reason == "episode_finished"
    return {"text": json.dumps(told), "reward": None, "done": done, "is_refused": True}


def join_texts(blocks: list[dict[str, Any]]) -> str:
    """Return the texts of blocks. Raises `HostError` for an image, which the output of a call cannot have."""
    for block in blocks:
        if block["type"] != "text":
            raise HostError("unsupported", f"the output of a tool has a block of type {block['type']!r}")
    return "\n".join(block["text"] for block in blocks)


def build_items(role: str, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a message as items of the Responses API: texts and images side by side are one message."""
    items: list[dict[str, Any]] = []
    for block in blocks:
        part = build_part(role, block)
        if part is None:
            items.append(build_item(block))
        elif items and items[-1].get("role") == role:
            items[-1]["content"].append(part)
        else:
            items.append({"type": "message", "role": role, "content": [part]})
    return items


def build_part(role: str, block: dict[str, Any]) -> dict[str, Any] | None:
    """Return a text or an image as a part of a message; None for other blocks."""
    if block["type"] == "text":
        return {"type": "output_text" if role == "assistant" else "input_text", "text": block["text"]}
    if block["type"] == "image":
        url = f"data:{block['mimeType']};base64,{block['data']}"
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return None


def build_item(block: dict[str, Any]) -> dict[str, Any]:
    """Return an earlier call, its result or earlier reasoning as an item. Raises `HostError` for other blocks."""
    kind = block["type"]
    if kind == "tool_call":
        arguments = json.dumps(block["input"])
        return {
            "type": "function_call",
            "call_id": block["id"],
            "name": block["name"],
            "arguments": arguments,
        }
    if kind == "tool_result":
        output = join_texts(block["blocks"])
        return {"type": "function_call_output", "call_id": block["tool_call_id"], "output": output}
    if kind == "reasoning":
        summary = [{"type": "summary_text", "text": block["text"]}]
        return {"type": "reasoning", "summary": summary}
    raise HostError("unsupported", f"a message has a block of type {kind!r}")


def load_app(folder: Path) -> Any:
    """Run `server.py` as a program, and return the application of the server that it would start."""
    try:
        return capture_app(folder / "server.py")
    except FileNotFoundError as error:
        if Path(error.filename) != folder / "server.py":
            raise
        raise HostError("not_found", f"{folder} has no server.py") from error
    except PermissionError as error:
        told = f"the user of a host cannot read {error.filename}: chmod -R o+rX {folder}"
        raise HostError("not_found", told) from error
    except ModuleNotFoundError as error:
        told = f"{folder.name} needs the package {error.name}, which its lock lacks"
        raise HostError("not_found", told) from error


def capture_app(file: Path) -> Any:
    """Run a program up to the start of its server. Raises `HostError` if it starts none."""
    from openreward.environments import Server

    class Captured(BaseException):
        """The program has come to its end."""

    def run(server: Any, *arguments: Any, **named: Any) -> None:
        raise Captured(server.app)

    module = ModuleType("__main__")
    module.__file__ = str(file)
    sys.modules["__main__"] = module  # where pickle and annotations look
    sys.path.insert(0, str(file.parent))
    original, Server.run = Server.run, run
    try:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), module.__dict__)
    except Captured as captured:
        return captured.args[0]
    finally:
        Server.run = original
    raise HostError("not_found", f"{file} starts no Server of openreward")
