"""Policies that repair a repository with whatever tools an agent offers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import orjson

from nemo_gym.mock_engine import ModelReply, ToolCall
from nemo_gym.mock_engine.conversation import (
    Message,
    Tool,
    last_user_text,
    list_called_tools,
    read_name,
    read_text,
)
from resources_servers.code_repair.bugs import files_of

FILE = "ledger/money.py"
RIGHT = files_of("ledger")[FILE]
REPAIR = f"cat > {FILE} <<'END'\n{RIGHT}END\n"
TESTS = "python3 -m unittest discover -s tests -t . 2>&1 | tail -3"
FINAL = "The bug is corrected."

SHELLS: Mapping[str, Mapping[str, Any]] = {
    "Bash": {"command": "", "description": "correct the bug"},
    "bash": {"command": "", "description": "correct the bug"},
    "exec_command": {"cmd": ""},
    "run_shell_command": {"command": "", "is_background": False},
    "shell": {"command": []},
    "shell_command": {"command": ""},
}
"""The names of tools that run a command, and the form of their arguments."""


class RepairPolicy:
    """Looks at a file for some turns, writes the right file, runs the tests, and ends."""

    def __init__(self, looks: int = 0) -> None:
        self.looks = looks
        self.replies = 0
        """The number of its answers."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        self.replies += 1
        if not tools and "def write_file(" in read_text(conversation[0].get("content")):
            return self._with_code(sum(message["role"] == "assistant" for message in conversation))
        return self.next_turn(conversation, [read_name(tool) for tool in tools])

    def next_turn(self, conversation: Sequence[Message], names: Sequence[str]) -> ModelReply:
        done = len(list_called_tools(conversation))
        for name in names:
            if name in SHELLS:
                return self._with_shell(name, self.commands(conversation), done, names)
            if name.endswith("write_file") and "run_tests" in "".join(names):
                return self._with_tools(name.removesuffix("write_file"), done)
        return ModelReply(text="A repair")  # a call beside the conversation, such as one for a title

    def commands(self, conversation: Sequence[Message]) -> list[str]:
        """Return the commands of an attempt with a shell."""
        return [*(f"head -c 300 {FILE} # {look}" for look in range(self.looks)), REPAIR, TESTS]

    def _with_shell(self, name: str, commands: list[str], done: int, names: Sequence[str]) -> ModelReply:
        if names == ["bash"]:
            commands.append("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")  # the end of mini-swe-agent
        return run(name, commands[done]) if done < len(commands) else ModelReply(text=FINAL)

    def _with_tools(self, prefix: str, done: int) -> ModelReply:
        steps = self.steps()
        return call(prefix + steps[done][0], steps[done][1]) if done < len(steps) else ModelReply(text=FINAL)

    def _with_code(self, done: int) -> ModelReply:
        """Return a turn whose tool call is Python code in its text."""
        name, arguments = [*self.steps(), ("final_answer", {"answer": FINAL})][done]
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        return ModelReply(text=f"I go on.\n```python\nprint({name}({given}))\n```")

    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the tool calls of an attempt with the environment's tools."""
        looks = [("read_file", {"path": FILE})] * (self.looks + 1)
        return [*looks, ("write_file", {"path": FILE, "content": RIGHT}), ("run_tests", {})]


SUBTASK = "Say what the tests of the package check"
FOUND = "The tests of the package check amounts of money in several currencies."
SUMMARY = "The bug is in the rounding of amounts; the tests check amounts of money in several currencies."


class DelegatingPolicy(RepairPolicy):
    """Asks a subagent first, then reads much, and summarizes the conversation when the agent wants a summary."""

    def next_turn(self, conversation: Sequence[Message], names: Sequence[str]) -> ModelReply:
        said = "\n".join(read_text(message.get("content")) for message in conversation)
        if "create a detailed summary" in last_user_text(conversation):
            return ModelReply(text=f"<summary>\n{SUMMARY}\n</summary>")
        delegates = next((name for name in names if name in ("Task", "Agent")), None)
        if SUBTASK in said:  # the prompt of the subagent, which could delegate, too
            return (
                ModelReply(text=FOUND)
                if list_called_tools(conversation)
                else run("Bash", f"head -c 300 {FILE}")
            )
        if delegates is not None and not list_called_tools(conversation) and SUMMARY not in said:
            about = {"description": "read the tests", "prompt": SUBTASK, "subagent_type": "general-purpose"}
            return call(delegates, about)
        return super().next_turn(conversation, names)

    def commands(self, conversation: Sequence[Message]) -> list[str]:
        if any(SUMMARY in read_text(message.get("content")) for message in conversation):
            given = [str(message.get("tool_calls") or "") for message in conversation]
            return [
                *("true" for calls in given if "/dev/zero" in calls),
                REPAIR,
                TESTS,
            ]  # after those that were kept
        reads = (f"head -c 24000 /dev/zero | tr '\\0' x # {look}" for look in range(self.looks))
        return [*reads, REPAIR, TESTS]


def run(name: str, command: str) -> ModelReply:
    """Return a turn that runs a command with the shell tool `name`."""
    given = SHELLS[name]
    key = "cmd" if "cmd" in given else "command"
    return call(
        name, {**given, key: shlex.split(f"bash -c {shlex.quote(command)}") if given[key] == [] else command}
    )


def call(name: str, arguments: Mapping[str, Any]) -> ModelReply:
    return ModelReply(tool_calls=(ToolCall(name, orjson.dumps(arguments).decode()),))
