"""A row as the rules of `health` read it: model turns, their text, tool results, the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from nemo_gym.json_objects import member
from nemo_gym.responses.wire import read_content_text
from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.parts import read_output, read_params
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord


class CheckedCall(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: str


@dataclass(slots=True)
class ModelTurn:
    """The output items between two inputs of the model."""

    texts: list[str] = field(default_factory=list)
    """Reasoning and messages."""
    calls: list[CheckedCall] = field(default_factory=list)
    is_answer: bool = False
    """Whether it has a message with content, or a call."""
    has_tokens: bool = False

    @property
    def text(self) -> str:
        """Return everything that the model wrote, arguments of calls included."""
        return "\n".join([*self.texts, *(call.arguments for call in self.calls)])


@dataclass(frozen=True)
class CheckedRow:
    """A row of a run and its place."""

    line: int
    """The number of its line, from 1."""
    identity: RolloutId
    row: Mapping[str, Any]

    @cached_property
    def turns(self) -> Sequence[ModelTurn]:
        """The model's turns."""
        return list(_turns(read_output(self.row)))

    @cached_property
    def text(self) -> str:
        """Everything that the model wrote."""
        return "\n".join(turn.text for turn in self.turns)

    @cached_property
    def calls(self) -> Sequence[CheckedCall]:
        """The calls of tools, in order."""
        return [call for turn in self.turns for call in turn.calls]

    @cached_property
    def model_calls(self) -> Sequence[CallRecord]:
        """The token records of its model calls; empty for a row without tokens."""
        return read_calls(self.row) if self.has_tokens else []

    @cached_property
    def has_tokens(self) -> bool:
        """Whether any of its turns has token ids, or a record of why it has none."""
        return any(turn.has_tokens for turn in self.turns)

    @property
    def prompt(self) -> str:
        """The text of the task's input."""
        given = read_params(self.row).get("input")
        items = given if isinstance(given, list) else [{"content": given}]
        return "\n".join(read_content_text(member(item, "content")) for item in items)

    @property
    def tool_results(self) -> Iterator[str]:
        """Yield the texts that tools answered."""
        for item in read_output(self.row):
            if _is_tool_result(item):
                yield read_content_text(item.get("output"))


def _turns(output: Sequence[Mapping[str, Any]]) -> Iterator[ModelTurn]:
    turn: ModelTurn | None = None
    for item in output:
        if _is_tool_result(item) or item.get("role", "assistant") != "assistant":
            if turn is not None:
                yield turn
            turn = None
        else:
            turn = turn or ModelTurn()
            _add(turn, item)
    if turn is not None:
        yield turn


def _add(turn: ModelTurn, item: Mapping[str, Any]) -> None:
    kind = item.get("type") or "message"
    turn.has_tokens |= item.get(RECORD_FIELD) is not None or bool(item.get("generation_token_ids"))
    if kind == "reasoning":
        turn.texts += [read_content_text(item.get("summary")), read_content_text(item.get("content"))]
    elif kind == "message":
        text = read_content_text(item.get("content"))
        turn.texts.append(text)
        turn.is_answer |= bool(text.strip()) or _has_refusal(item.get("content"))
    else:
        arguments = item.get("arguments", item.get("input"))
        turn.calls.append(CheckedCall(str(item.get("name") or kind), str(arguments or "")))
        turn.is_answer = True


def _has_refusal(content: object) -> bool:
    return isinstance(content, list) and any(member(part, "refusal") for part in content)


def _is_tool_result(item: Mapping[str, Any]) -> bool:
    return str(item.get("type")).endswith("_output")
