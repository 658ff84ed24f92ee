"""OpenAI fine-tuning: `messages` with `tools` and `parallel_tool_calls`.

The last message is the assistant's, arguments are JSON text, and assistant messages that the policy didn't write
have weight 0. Tool names have at most 64 letters, digits, `_` and `-`; there are at most 128 tools. Reasoning can't be
represented; images may be in user messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nemo_gym.export._conversation import ChatTranscript, Message, TextOptions, read_conversation
from nemo_gym.export.formats import FINISHED, SOLVED, ExportRecord, Format, Options
from nemo_gym.export.report import LeftOut, Loss, Unsuitable
from nemo_gym.export.rollouts import Group, ScoredRollout

MOST_TOOLS = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TEXT = TextOptions(reasoning="drop", arguments="string")


class OpenAi(Format[Options]):
    name = "openai"
    endings = (".jsonl",)
    outcomes = FINISHED
    min_reward = SOLVED
    merges_equal_rows = learns_answers = True
    summary = "chat examples for OpenAI's fine-tuning"
    losses = (Loss.REASONING, Loss.TRAILING_OUTPUTS)
    example = "ng_export +format=openai +input=rollouts.jsonl +output=data/openai.jsonl +min_reward=1"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        for rollout, chat in self.report.suitable(group.selected, _read):
            self.report.export(loss for loss in chat.losses if loss is not Loss.UNSAMPLED_TURNS)
            row: ExportRecord = {"messages": _add_weights(chat)}
            if chat.tools:
                row["tools"] = chat.tools
                row["parallel_tool_calls"] = rollout.params.get("parallel_tool_calls") is not False
            yield row


def _read(rollout: ScoredRollout) -> ChatTranscript:
    chat = read_conversation(rollout, _TEXT, text_only=False)
    if len(chat.tools) > MOST_TOOLS:
        raise Unsuitable(LeftOut.ILLEGAL_FIELD, f"{len(chat.tools)} tools")
    called = [call["function"]["name"] for m in chat.messages for call in m.get("tool_calls", ())]
    for name in [tool["function"]["name"] for tool in chat.tools] + called:
        if not _NAME.fullmatch(name):
            raise Unsuitable(LeftOut.ILLEGAL_FIELD, f"the tool name {name!r}")
    if any(isinstance(m["content"], list) and m["role"] != "user" for m in chat.messages):
        raise Unsuitable(LeftOut.MULTIMODAL)
    _require_outputs(chat.messages)
    return chat


def _require_outputs(messages: list[Message]) -> None:
    """Require that every tool call, except those of the last message, has its output before the next message."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            waiting.discard(message["tool_call_id"])
        elif waiting:
            raise Unsuitable(LeftOut.TURN_ORDER, "a tool call has no output")
        waiting.update(call["id"] for call in message.get("tool_calls", ()))


def _add_weights(chat: ChatTranscript) -> list[Message]:
    messages = []
    for place, message in enumerate(chat.messages):
        # OpenAI's tool messages have no name; the call's id identifies them.
        written = {key: value for key, value in message.items() if key != "name" or message["role"] != "tool"}
        if message["role"] == "assistant" and place - len(chat.prompt) not in chat.sampled:
            written["weight"] = 0
        messages.append(written)
    return messages
