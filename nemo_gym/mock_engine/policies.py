"""Scripted policies: the mock model's replies as pure functions of the conversation.

Policies need no engine and no HTTP, only chat messages. A policy keeps no state between replies, so one object
serves any number of concurrent conversations: it reads the past from the conversation and draws from the generator
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
    ModelReply,
    Tool,
    ToolCall,
    drop_until_last_user,
    last_tool_output,
    last_user_text,
    list_called_tools,
    read_name,
    read_parameters,
    read_text,
    turns_taken,
)

QUOTE_LIMIT = 200
"""Maximum characters of a tool's output in a closing text."""


class MockPolicy(Protocol):
    """A function from a conversation to the assistant's next turn."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        """Return the assistant's next turn. `rng` is only valid during the call."""


@dataclass(frozen=True, slots=True)
class EchoPolicy:
    """Repeats the last user message."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        return ModelReply(text=last_user_text(conversation))


@dataclass(frozen=True, slots=True)
class AnswerPolicy:
    """Gives the right answer with probability `accuracy`, a wrong one otherwise.

    The reply to a question outside the key names the question, which makes the gap visible in the rollouts.
    """

    key: AnswerKey
    accuracy: float = 1.0

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        question = last_user_text(conversation)
        entry = self.key.find(question)
        if entry is None:
            return ModelReply(text=f"The answer key has no entry for: {question}")
        return ModelReply(text=entry.answer if rng.random() < self.accuracy else entry.wrong)


@dataclass(frozen=True, slots=True)
class ToolsPolicy:
    """Calls every declared tool once, in order, and closes with a text that quotes the last tool's output.

    "Once" means once after the last user message.
    """

    parallel: bool = False
    """All calls in one turn instead of one per turn."""
    most_calls: int | None = None
    """Maximum number of declared tools to call."""
    closing: MockPolicy | None = None
    """The policy of the closing text; by default a sentence that quotes the last tool's output."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        turns = drop_until_last_user(conversation)
        already = list_called_tools(turns)
        open_tools = [tool for tool in tools[: self.most_calls] if read_name(tool) not in already]
        if open_tools:
            chosen = open_tools if self.parallel else open_tools[:1]
            return ModelReply(tool_calls=tuple(plausible_call(tool) for tool in chosen))
        if self.closing is not None:
            return self.closing.reply(conversation, tools, rng)
        output = last_tool_output(turns)
        if output is None:
            return ModelReply(text=f"No tool was needed for: {last_user_text(conversation)}")
        return ModelReply(text=f"Done. The last tool said: {output[:QUOTE_LIMIT]}")


def plausible_call(tool: Tool) -> ToolCall:
    """Return a call of `tool` with arguments that its schema accepts."""
    return ToolCall(read_name(tool), plausible_arguments(read_parameters(tool)))


@dataclass(frozen=True, slots=True)
class Scene:
    """The replies for conversations that contain `match`: one per turn, then the last one again."""

    turns: tuple[ModelReply, ...]
    match: str = ""


@dataclass(frozen=True, slots=True)
class ScriptPolicy:
    """Follows the first scene whose `match` occurs in the conversation. `read_script` reads its file."""

    scenes: tuple[Scene, ...]

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        text = "\n".join(read_text(message.get("content")) for message in conversation)
        for scene in self.scenes:
            if scene.match in text:
                return scene.turns[min(turns_taken(conversation), len(scene.turns) - 1)]
        raise InputError(
            f"The script has no scene for this conversation: {last_user_text(conversation)[:QUOTE_LIMIT]!r}.",
            code="no_scene",
            remedy="Add a scene without `match` at the end of the script: it matches every conversation.",
            status=400,
        )


@dataclass(frozen=True, slots=True)
class GoldPolicy:
    """Follows a script with probability `accuracy` at each turn, and another policy otherwise."""

    script: ScriptPolicy
    otherwise: MockPolicy
    accuracy: float = 1.0

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        policy = self.script if rng.random() < self.accuracy else self.otherwise
        try:
            return policy.reply(conversation, tools, rng)
        except InputError:  # the script has no scene for it
            return self.otherwise.reply(conversation, tools, rng)


@dataclass(frozen=True, slots=True)
class ThinkingPolicy:
    """Adds a short reasoning to replies of another policy that have none."""

    policy: MockPolicy

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        reply = self.policy.reply(conversation, tools, rng)
        if reply.reasoning:
            return reply
        calls = ", ".join(call.name for call in reply.tool_calls)
        plan = f"I should call {calls}." if calls else "I have what I need to answer."
        return ModelReply(
            reply.text,
            f"The user asked: {last_user_text(conversation)[:QUOTE_LIMIT]} {plan}",
            reply.tool_calls,
        )
