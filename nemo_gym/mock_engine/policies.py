"""Scripted policies: what a mock model says, as pure functions of the conversation.

They need no engine and no HTTP: anything that has chat messages can ask one for the next reply. A policy
keeps no state between replies, so that one object serves any number of conversations at once; what it would
have to remember it reads from the conversation, and what it would have to draw it draws from the generator
that the caller seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from nemo_gym.failures import InputError
from nemo_gym.mock_engine._answers import AnswerKey
from nemo_gym.mock_engine._plausible import plausible_arguments
from nemo_gym.mock_engine.conversation import (
    Message,
    Reply,
    Tool,
    ToolCall,
    called_tools,
    last_tool_output,
    last_user_text,
    name_of,
    parameters_of,
    since_last_user,
    text_of,
    turns_taken,
)

QUOTE_LIMIT = 200
"""Characters of a tool's output that a closing text repeats."""


class Policy(Protocol):
    """Who speaks for the model."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> Reply:
        """The assistant's next turn. `rng` is only valid during the call."""


@dataclass(frozen=True, slots=True)
class EchoPolicy:
    """Repeats what the user said last."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> Reply:
        return Reply(text=last_user_text(conversation))


@dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """Gives the right answer with probability `accuracy`, a wrong one otherwise.

    A question that the key doesn't hold is echoed, with a remark that makes the gap visible in the rollouts.
    """

    key: AnswerKey
    accuracy: float = 1.0

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> Reply:
        question = last_user_text(conversation)
        entry = self.key.find(question)
        if entry is None:
            return Reply(text=f"The answer key has no entry for: {question}")
        return Reply(text=entry.answer if rng.random() < self.accuracy else entry.wrong)


@dataclass(frozen=True, slots=True)
class ToolsPolicy:
    """Calls every declared tool once, in order, and closes with a text that quotes the last tool's output.

    "Once" counts from the user's last message on, so that a conversation of several user turns calls the
    tools anew in each of them.
    """

    parallel: bool = False
    """All calls in one turn instead of one a turn."""
    most_calls: int | None = None
    """Calls at most so many of the declared tools."""
    closing: Policy | None = None
    """Who writes the closing text; by default a sentence that quotes the last tool's output."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> Reply:
        turns = since_last_user(conversation)
        already = called_tools(turns)
        open_tools = [tool for tool in tools[: self.most_calls] if name_of(tool) not in already]
        if open_tools:
            chosen = open_tools if self.parallel else open_tools[:1]
            return Reply(tool_calls=tuple(plausible_call(tool) for tool in chosen))
        if self.closing is not None:
            return self.closing.reply(conversation, tools, rng)
        output = last_tool_output(turns)
        if output is None:
            return Reply(text=f"No tool was needed for: {last_user_text(conversation)}")
        return Reply(text=f"Done. The last tool said: {output[:QUOTE_LIMIT]}")


def plausible_call(tool: Tool) -> ToolCall:
    """A call of `tool` with arguments that its schema accepts."""
    return ToolCall(name_of(tool), plausible_arguments(parameters_of(tool)))


@dataclass(frozen=True, slots=True)
class Scene:
    """What to say in the conversations that contain `match`: one reply a turn, the last one from then on."""

    turns: tuple[Reply, ...]
    match: str = ""


@dataclass(frozen=True, slots=True)
class ScriptPolicy:
    """Follows the first scene whose `match` occurs in the conversation; see `read_script` for its file."""

    scenes: tuple[Scene, ...]

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> Reply:
        text = "\n".join(text_of(message.get("content")) for message in conversation)
        for scene in self.scenes:
            if scene.match in text:
                return scene.turns[min(turns_taken(conversation), len(scene.turns) - 1)]
        raise InputError(
            f"The script has no scene for this conversation: {last_user_text(conversation)[:QUOTE_LIMIT]!r}.",
            code="no_scene",
            remedy="Add a scene without `match` at the end of the script: it meets every conversation.",
            status=400,
        )


@dataclass(frozen=True, slots=True)
class ThinkingPolicy:
    """Puts a short reasoning before the replies of another policy that have none."""

    policy: Policy

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> Reply:
        reply = self.policy.reply(conversation, tools, rng)
        if reply.reasoning:
            return reply
        calls = ", ".join(call.name for call in reply.tool_calls)
        plan = f"I should call {calls}." if calls else "I have what I need to answer."
        return Reply(
            reply.text,
            f"The user asked: {last_user_text(conversation)[:QUOTE_LIMIT]} {plan}",
            reply.tool_calls,
        )
