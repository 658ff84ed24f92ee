"""The chat template: a conversation as the model's input text, and a reply as its output text.

    <|system|>Be brief.<|end|>
    <|user|>What is 1 + 2?<|end|>
    <|assistant|><think>I add.</think><tool_call>add
    {"a": 1, "b": 2}</tool_call><|end|>
    <|tool|>3<|end|>
    <|assistant|>

Multi-turn training relies on this invariant: a prompt, its reply and `<|end|>` are a prefix of the next turn's
prompt, provided that the client sends the reply back unchanged. The newline after `<|end|>` belongs to the next
prompt, not to the reply, as in the templates of real models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import orjson

from nemo_gym.mock_engine.conversation import Message, ModelReply, Tool, ToolCall, read_reasoning, read_text

OPENING = "<|assistant|>"
"""The mark that begins a reply."""
_MARK_OF_ROLE = {
    "system": "<|system|>",
    "developer": "<|system|>",
    "user": "<|user|>",
    "assistant": OPENING,
    "tool": "<|tool|>",
}
_CALL = re.compile(r"<tool_call>(.*?)\n(.*?)</tool_call>", re.DOTALL)
_TURN = re.compile(r"<\|(system|user|assistant|tool)\|>(.*?)<\|end\|>\n?", re.DOTALL)
_TOOLS = re.compile(r"\n*# Tools\n(\[.*\])\Z", re.DOTALL)


class ChatTemplate(Protocol):
    """A chat template. Tests use others to break the invariant, for example by dropping earlier reasoning."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], *, opens_reply: bool = True) -> str:
        """Render the model's input text. Raises ValueError for an unknown role."""

    def reply(self, reply: ModelReply) -> str:
        """Render the model's output text, without the end-of-turn mark."""

    def parse(self, text: str, *, finds_reasoning: bool = True) -> ModelReply:
        """Parse the model's output text, which may be cut anywhere."""


class MarkTemplate:
    """The template of the module docstring. It trims, reorders and drops nothing."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], *, opens_reply: bool = True) -> str:
        turns = [_turn(message) for message in messages]
        if tools:
            turns = _declare_tools(turns, tools)
        text = "<|end|>\n".join(turns) + "<|end|>\n" if turns else ""
        return text + OPENING if opens_reply else text

    def reply(self, reply: ModelReply) -> str:
        return _assistant(
            reply.reasoning, reply.text, [(call.name, call.arguments) for call in reply.tool_calls]
        )

    def parse(self, text: str, *, finds_reasoning: bool = True) -> ModelReply:
        reasoning = ""
        if finds_reasoning and text.startswith("<think>"):
            reasoning, _, text = text.removeprefix("<think>").partition("</think>")
        calls = tuple(ToolCall(name, arguments) for name, arguments in _CALL.findall(text))
        return ModelReply(text=_CALL.sub("", text), reasoning=reasoning, tool_calls=calls)


def _turn(message: Message) -> str:
    role = message["role"]
    mark = _MARK_OF_ROLE.get(role)
    if mark is None:
        raise ValueError(f"Unexpected message role: {role!r}.")
    content = message.get("content")
    text = content if isinstance(content, str) else read_text(content)
    if role != "assistant":
        return mark + text
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()
    ]
    return mark + _assistant(read_reasoning(message), text, calls)


def _assistant(reasoning: str, text: str, calls: Sequence[tuple[str, str]]) -> str:
    thought = f"<think>{reasoning}</think>" if reasoning else ""
    return thought + text + "".join(f"<tool_call>{name}\n{args}</tool_call>" for name, args in calls)


def _declare_tools(turns: list[str], tools: Sequence[Tool]) -> list[str]:
    declared = "# Tools\n" + orjson.dumps([tool["function"] for tool in tools]).decode()
    if turns and turns[0].startswith("<|system|>"):
        return [f"{turns[0]}\n\n{declared}", *turns[1:]]
    return [f"<|system|>{declared}", *turns]


def read_prompt(text: str) -> tuple[list[Message], list[Tool]]:
    """Parse a prompt in the mock's template into messages and tools; a reply that it begins is left out."""
    messages: list[Message] = []
    tools: list[Tool] = []
    for role, content in _TURN.findall(text):
        declared = _TOOLS.search(content) if role == "system" and not messages else None
        if declared:
            tools = [{"type": "function", "function": tool} for tool in orjson.loads(declared[1])]
            content = content[: declared.start()]
        if role == "assistant":
            reply = MarkTemplate().parse(content)
            calls = [
                {"function": {"name": call.name, "arguments": call.arguments}} for call in reply.tool_calls
            ]
            messages.append(
                {"role": role, "content": reply.text, "reasoning": reply.reasoning, "tool_calls": calls}
            )
        elif content or not declared:
            messages.append({"role": role, "content": content})
    return messages, tools
