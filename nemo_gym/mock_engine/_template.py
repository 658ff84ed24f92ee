"""How a conversation becomes the one text that a model reads, and a reply the text that it writes.

    <|system|>Be brief.<|end|>
    <|user|>What is 1 + 2?<|end|>
    <|assistant|><think>I add.</think><tool_call>add
    {"a": 1, "b": 2}</tool_call><|end|>
    <|tool|>3<|end|>
    <|assistant|>

The law that training on several turns rests on, and that this template keeps: the text of a prompt, then the
reply, then `<|end|>` is the start of the next turn's prompt, provided that the client sends back what it got.
The newline after `<|end|>` belongs to the next prompt, not to the reply, as in the templates of real models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import orjson

from nemo_gym.mock_engine.conversation import Message, Reply, Tool, ToolCall, reasoning_of, text_of

_MARK_OF_ROLE = {
    "system": "<|system|>",
    "developer": "<|system|>",
    "user": "<|user|>",
    "assistant": "<|assistant|>",
    "tool": "<|tool|>",
}
_CALL = re.compile(r"<tool_call>(.*?)\n(.*?)</tool_call>", re.DOTALL)


class ChatTemplate(Protocol):
    """Swap in another to test what a less kind template breaks, such as one that drops earlier reasoning."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], *, opens_reply: bool = True) -> str:
        """The text that the model reads. Raises ValueError for a role that the template doesn't know."""

    def reply(self, reply: Reply) -> str:
        """The text that the model writes, up to but without the end of its turn."""

    def parse(self, text: str, *, finds_reasoning: bool = True) -> Reply:
        """The reply in what the model wrote, which may have been cut anywhere."""


class MarkTemplate:
    """The template shown above: nothing is trimmed, reordered or dropped."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], *, opens_reply: bool = True) -> str:
        turns = [_turn(message) for message in messages]
        if tools:
            turns = _with_tools(turns, tools)
        text = "<|end|>\n".join(turns) + "<|end|>\n" if turns else ""
        return text + "<|assistant|>" if opens_reply else text

    def reply(self, reply: Reply) -> str:
        return _assistant(
            reply.reasoning, reply.text, [(call.name, call.arguments) for call in reply.tool_calls]
        )

    def parse(self, text: str, *, finds_reasoning: bool = True) -> Reply:
        reasoning = ""
        if finds_reasoning and text.startswith("<think>"):
            reasoning, _, text = text.removeprefix("<think>").partition("</think>")
        calls = tuple(ToolCall(name, arguments) for name, arguments in _CALL.findall(text))
        return Reply(text=_CALL.sub("", text), reasoning=reasoning, tool_calls=calls)


def _turn(message: Message) -> str:
    role = message["role"]
    mark = _MARK_OF_ROLE.get(role)
    if mark is None:
        raise ValueError(f"Unexpected message role: {role!r}.")
    content = message.get("content")
    text = content if isinstance(content, str) else text_of(content)
    if role != "assistant":
        return mark + text
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()
    ]
    return mark + _assistant(reasoning_of(message), text, calls)


def _assistant(reasoning: str, text: str, calls: Sequence[tuple[str, str]]) -> str:
    thought = f"<think>{reasoning}</think>" if reasoning else ""
    return thought + text + "".join(f"<tool_call>{name}\n{args}</tool_call>" for name, args in calls)


def _with_tools(turns: list[str], tools: Sequence[Tool]) -> list[str]:
    declared = "# Tools\n" + orjson.dumps([tool["function"] for tool in tools]).decode()
    if turns and turns[0].startswith("<|system|>"):
        return [f"{turns[0]}\n\n{declared}", *turns[1:]]
    return [f"<|system|>{declared}", *turns]
