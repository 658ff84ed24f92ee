"""A rollout as chat messages: the prompt, and everything from the policy's first message on.

`nemo_gym.responses` converts the messages, as for an engine. Ids of tool calls are replaced by consecutive ones: the
ids in a row are random, should not be learned, and would make equal rows differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import orjson
from pydantic import Field

from nemo_gym.export.formats import Format, Options
from nemo_gym.export.report import LeftOut, Loss, Unsuitable
from nemo_gym.export.rollouts import Group, ScoredRollout
from nemo_gym.failures import InputError
from nemo_gym.json_objects import member, parse_json
from nemo_gym.responses import build_chat_request
from nemo_gym.responses.dialects import REASONING_FIELDS, BadArguments, Dialect, ReasoningHistory
from nemo_gym.responses.harness_requests import keep_known_fields
from nemo_gym.responses.history_items import is_chat_shaped
from nemo_gym.responses.turns import read_request_items
from nemo_gym.rows.parts import read_output
from nemo_gym.tokens.reasons import SegmentReason, UntrainedReason
from nemo_gym.tokens.records import CARRIED_FIELDS, RECORD_FIELD

Message = dict[str, Any]

_REWRITTEN = frozenset({SegmentReason.COMPACTED, SegmentReason.EDITED, SegmentReason.BRANCH})
"""Reasons after which the items of a row, in order, are not a conversation that the policy saw."""
LOSSES_OF_TEXT = (Loss.REASONING, Loss.UNSAMPLED_TURNS, Loss.TRAILING_OUTPUTS)
"""The losses of messages; the first one occurs where reasoning is dropped."""
_SAMPLED = "generation_token_ids"
"""A field that the conversion copies from an item to its message. It marks the messages that the policy wrote."""


class TextOptions(Options):
    """The options of formats with messages."""

    reasoning: Literal["inline", "field", "drop"] = Field(
        "inline",
        description="Reasoning as `<think>…</think>` at the start of the text, as `reasoning_content`, or not at all.",
    )
    arguments: Literal["object", "string"] = Field(
        "object",
        description="Arguments of tool calls as objects, as chat templates expect them, or as JSON text. "
        "Parquet columns need JSON text.",
    )


@dataclass(frozen=True, slots=True)
class ChatTranscript:
    """The messages of a rollout. All content is text."""

    prompt: list[Message]
    """In a fork with the turns that it shares with its parent, which are trained there."""
    completion: list[Message]
    """From the policy's first message of its own to its last."""
    sampled: frozenset[int]
    """The indices in `completion` of the messages that the policy wrote."""
    tools: list[dict[str, Any]]
    """Tools in the form of Chat Completions."""
    losses: tuple[Loss, ...]
    """The losses if the whole completion is trained on."""
    shared_turns: int = 0
    """The policy's turns in the prompt of a fork."""

    @property
    def messages(self) -> list[Message]:
        return self.prompt + self.completion

    @property
    def losses_of_sft(self) -> tuple[Loss, ...]:
        """The losses if every assistant message is trained on, including those of the prompt."""
        has_examples = any(message["role"] == "assistant" for message in self.prompt)
        return (*self.losses, *([Loss.UNSAMPLED_TURNS] if has_examples else []))

    def require_own_turns(self) -> Self:
        """Raise `Unsuitable` for a fork, whose shared turns would be trained once more with its messages."""
        if self.shared_turns:
            raise Unsuitable(LeftOut.SHARED_TURNS)
        return self

    @property
    def tools_column(self) -> dict[str, str]:
        """`tools` as JSON text; empty if there are none."""
        return {"tools": orjson.dumps(self.tools).decode()} if self.tools else {}


TextOptionsT = TypeVar("TextOptionsT", bound=TextOptions)


class TextFormat(Format[TextOptionsT]):
    """The base of formats with messages."""

    def chats(self, group: Group) -> Iterator[tuple[ScoredRollout, ChatTranscript]]:
        """Yield the group's selected rollouts with their messages; leave out those without."""
        return self.report.suitable(group.selected, lambda rollout: read_conversation(rollout, self.options))

    def whole_chats(self, group: Group) -> Iterator[tuple[ScoredRollout, ChatTranscript]]:
        """Yield those of which every message of the policy can be trained on."""
        return self.report.suitable(
            group.selected, lambda rollout: read_conversation(rollout, self.options).require_own_turns()
        )

    def first_chat(self, group: Group) -> Iterator[tuple[ScoredRollout, ChatTranscript]]:
        """Yield the first rollout that has messages, for formats with one row per task; leave out the others."""
        for place, (rollout, chat) in enumerate(self.chats(group)):
            if place:
                self.report.leave_out(rollout, LeftOut.REPEATED_TASK)
            else:
                self.report.export()
                yield rollout, chat


def read_conversation(
    rollout: ScoredRollout, options: TextOptions, *, text_only: bool = True
) -> ChatTranscript:
    """Return the messages of `rollout`. Raises `Unsuitable` if messages can't represent it."""
    output = read_output(rollout.row)
    if any(member(item, RECORD_FIELD, "reason") in _REWRITTEN for item in output):
        raise Unsuitable(LeftOut.REWRITTEN_HISTORY)
    given = [_plain(item) for item in read_request_items("responses", rollout.params)]
    dialect = _dialect(options)
    prompt = _chat(rollout, given, dialect)["messages"] if given or rollout.params.get("instructions") else []
    body = _chat(rollout, given + _mark_sampled(output), dialect)
    messages = body["messages"]
    if [_drop_mark(message) for message in messages[: len(prompt)]] != prompt:
        raise Unsuitable(LeftOut.PREFILLED_ANSWER)
    losses = set()
    completion = messages[len(prompt) :]
    while completion and completion[-1]["role"] != "assistant":
        completion.pop()
        losses.add(Loss.TRAILING_OUTPUTS)
    turns = [place for place, message in enumerate(completion) if message["role"] == "assistant"]
    sampled = frozenset(place for place in turns if _SAMPLED in completion[place])
    if not sampled:
        raise Unsuitable(LeftOut.NO_ANSWER)
    shared = sum(member(item, RECORD_FIELD, "untrained") == UntrainedReason.OF_PARENT for item in output)
    if shared:
        prompt, completion, sampled = _split_after(shared, prompt, completion, sampled)
        turns = [place for place, message in enumerate(completion) if message["role"] == "assistant"]
    if len(sampled) < len(turns):
        losses.add(Loss.UNSAMPLED_TURNS)
    if options.reasoning == "drop" and any(member(item, "type") == "reasoning" for item in [*given, *output]):
        losses.add(Loss.REASONING)
    writer = _MessageWriter(options, text_only)
    return ChatTranscript(
        prompt=[writer.message(message) for message in prompt],
        completion=[writer.message(message) for message in completion],
        sampled=sampled,
        tools=body.get("tools", []),
        losses=tuple(losses),
        shared_turns=shared,
    )


def _split_after(
    shared: int, prompt: list[Message], completion: list[Message], sampled: frozenset[int]
) -> tuple[list[Message], list[Message], frozenset[int]]:
    """Return prompt and completion with the first `shared` turns of the policy in the prompt."""
    own = sorted(sampled)[shared:]
    if not own:
        raise Unsuitable(LeftOut.NO_ANSWER)
    first = own[0]
    return (
        [*prompt, *completion[:first]],
        completion[first:],
        frozenset(place - first for place in own),
    )


def _dialect(options: TextOptions) -> Dialect:
    inline = options.reasoning == "inline"
    return Dialect(
        reasoning_history=ReasoningHistory.INLINE if inline else ReasoningHistory.FIELDS,
        drop_input_reasoning_items=options.reasoning == "drop",
        replace_developer_role_with_system=True,
        bad_arguments=BadArguments.KEEP,
        merge_metadata_extras=False,
        keep_token_ids=True,
        empty_content="",
    )


def _chat(rollout: ScoredRollout, items: list[Any], dialect: Dialect) -> dict[str, Any]:
    request = {name: rollout.params.get(name) for name in ("instructions", "tools")} | {"input": items}
    try:
        return build_chat_request(request, dialect).body
    except InputError as error:
        raise Unsuitable(LeftOut.UNCONVERTIBLE, error.failure.param or error.failure.message) from error


def _plain(item: Any) -> Any:
    """Return an item without the fields that model servers add for trainers."""
    if not isinstance(item, Mapping):
        return item
    return {name: value for name, value in item.items() if name not in CARRIED_FIELDS}


def _mark_sampled(output: Any) -> list[Any]:
    """Return the output's items with the last item of each model call marked; all are marked if calls are unknown."""
    ends = [RECORD_FIELD in item or bool(item.get(_SAMPLED)) for item in output]
    marks = ends if any(ends) else [True] * len(output)
    return [
        _unmark(item) | ({_SAMPLED: [0]} if mark else {}) for item, mark in zip(output, marks, strict=True)
    ]


def _unmark(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an output item as it was sent to the model: without its tokens and the marks of its agent."""
    plain: dict[str, Any] = _plain(item)
    return plain if is_chat_shaped(plain) else keep_known_fields(plain)


def _drop_mark(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != _SAMPLED}


class _MessageWriter:
    """Writes the messages of one conversation with the options applied."""

    def __init__(self, options: TextOptions, text_only: bool) -> None:
        self._arguments_as_objects = options.arguments == "object"
        self._text_only = text_only
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def message(self, message: Message) -> Message:
        written: Message = {"role": message["role"], "content": self._content(message.get("content"))}
        reasoning = next((message[name] for name in REASONING_FIELDS if message.get(name)), None)
        if reasoning is not None:
            written["reasoning_content"] = reasoning
        if message.get("tool_calls"):
            written["tool_calls"] = [self._call(call) for call in message["tool_calls"]]
        if message["role"] == "tool":
            written["tool_call_id"] = self._id(message["tool_call_id"])
            written["name"] = self._find_name(written["tool_call_id"])
        elif message.get("name") is not None:
            written["name"] = message["name"]
        return written

    def _content(self, content: Any) -> Any:
        if not isinstance(content, list):
            return content or ""
        if all(part.get("type") == "text" for part in content):
            return "".join(part["text"] for part in content)
        if self._text_only:
            kinds = sorted({part.get("type", "?") for part in content} - {"text"})
            raise Unsuitable(LeftOut.MULTIMODAL, ", ".join(kinds))
        return content

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        try:
            parsed = parse_json(arguments or "{}")
        except orjson.JSONDecodeError as error:
            raise Unsuitable(LeftOut.MALFORMED_ARGUMENTS, f"{name}: {error}") from error
        if not isinstance(parsed, dict):
            raise Unsuitable(LeftOut.MALFORMED_ARGUMENTS, f"{name}: {arguments[:100]}")
        identity = self._id(call["id"])
        self._names[identity] = name
        return {
            "id": identity,
            "type": "function",
            "function": {
                "name": name,
                "arguments": parsed if self._arguments_as_objects else arguments or "{}",
            },
        }

    def _find_name(self, call: str) -> str:
        if call not in self._names:
            raise Unsuitable(LeftOut.TURN_ORDER, "a tool output has no call")
        return self._names[call]

    def _id(self, given: str) -> str:
        """`call00000`, `call00001`, …: nine letters and digits, which the strictest chat templates accept."""
        return self._ids.setdefault(given, f"call{len(self._ids):05d}")
