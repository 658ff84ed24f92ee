"""A rollout as chat messages: what the policy was given, and everything from its first word on.

The messages are those of `nemo_gym.responses`, so an export says what an engine was sent. Ids of tool calls are made
anew, in order: they are random in a row, and neither a thing to learn nor a reason for equal rows to differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import Field

from nemo_gym.export._formats import Options
from nemo_gym.export._rollouts import ScoredRollout
from nemo_gym.export.report import LeftOut, Loss, Unsuitable
from nemo_gym.failures import InputError
from nemo_gym.responses import chat_request_of
from nemo_gym.responses.dialects import REASONING_FIELDS, BadArguments, Dialect, ReasoningHistory
from nemo_gym.tokens.reasons import SegmentReason
from nemo_gym.tokens.records import CARRIED_FIELDS, RECORD_FIELD
from nemo_gym.tokens.rows import output_of

Message = dict[str, Any]

_REWRITTEN = frozenset({SegmentReason.COMPACTED, SegmentReason.EDITED, SegmentReason.BRANCH})
"""After these, the items of a row in their order are no conversation that the policy saw."""
LOSSES_OF_TEXT = (Loss.REASONING, Loss.UNSAMPLED_TURNS, Loss.TRAILING_OUTPUTS)
"""What messages may fail to say; the first where reasoning is dropped."""
_SAMPLED = "generation_token_ids"
"""A field that the conversion takes along from an item to its message: marks what the policy wrote."""


class TextOptions(Options):
    """How messages are written."""

    reasoning: Literal["inline", "field", "drop"] = Field(
        "inline",
        description="Reasoning as `<think>…</think>` at the head of the text, as `reasoning_content`, or not at all.",
    )
    arguments: Literal["object", "string"] = Field(
        "object",
        description="Arguments of tool calls as objects, as chat templates want them, or as JSON text. "
        "Columns of Parquet need JSON text.",
    )


@dataclass(frozen=True, slots=True)
class ChatTranscript:
    """The messages of a rollout. All content is text."""

    prompt: list[Message]
    completion: list[Message]
    """From the policy's first message to its last."""
    sampled: frozenset[int]
    """The places in `completion` of the messages that the policy wrote."""
    tools: list[dict[str, Any]]
    """In the form of Chat Completions."""
    losses: tuple[Loss, ...]
    """What these messages don't say, where all of the completion is trained on."""

    @property
    def messages(self) -> list[Message]:
        return self.prompt + self.completion

    @property
    def losses_of_sft(self) -> tuple[Loss, ...]:
        """The losses where every assistant message is trained on, those of the prompt too."""
        has_examples = any(message["role"] == "assistant" for message in self.prompt)
        return (*self.losses, *([Loss.UNSAMPLED_TURNS] if has_examples else []))


def conversation_of(
    rollout: ScoredRollout, options: TextOptions, *, text_only: bool = True
) -> ChatTranscript:
    """The messages of `rollout`. Raises `Unsuitable` where messages can't say what happened."""
    output = output_of(rollout.row)
    if any(_reason_of(item) in _REWRITTEN for item in output):
        raise Unsuitable(LeftOut.REWRITTEN_HISTORY)
    given = [_plain(item) for item in _input_items(rollout.params)]
    dialect = _dialect(options)
    prompt = _chat(rollout, given, dialect)["messages"] if given or _instructions(rollout) else []
    body = _chat(rollout, given + _marked(output), dialect)
    messages = body["messages"]
    if [_unmarked(message) for message in messages[: len(prompt)]] != prompt:
        raise Unsuitable(LeftOut.PREFILLED_ANSWER)
    losses = set()
    completion = messages[len(prompt) :]
    while completion and completion[-1]["role"] != "assistant":
        completion.pop()
        losses.add(Loss.TRAILING_OUTPUTS)
    sampled = _sampled_places(completion)
    if not sampled:
        raise Unsuitable(LeftOut.NO_ANSWER)
    if any(m["role"] == "assistant" and place not in sampled for place, m in enumerate(completion)):
        losses.add(Loss.UNSAMPLED_TURNS)
    if options.reasoning == "drop" and _has_reasoning(given, output):
        losses.add(Loss.REASONING)
    tidy = _Tidying(options, text_only)
    return ChatTranscript(
        prompt=[tidy.message(message) for message in prompt],
        completion=[tidy.message(message) for message in completion],
        sampled=sampled,
        tools=body.get("tools", []),
        losses=tuple(losses),
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
    request = {"instructions": _instructions(rollout), "input": items, "tools": rollout.params.get("tools")}
    try:
        return chat_request_of(request, dialect).body
    except InputError as error:
        raise Unsuitable(LeftOut.UNCONVERTIBLE, error.failure.param or error.failure.message) from error


def _instructions(rollout: ScoredRollout) -> Any:
    return rollout.params.get("instructions")


def _input_items(params: Mapping[str, Any]) -> list[Any]:
    given = params.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _plain(item: Any) -> Any:
    """An item without what model servers add for trainers."""
    if not isinstance(item, Mapping):
        return item
    return {name: value for name, value in item.items() if name not in CARRIED_FIELDS}


def _marked(output: Any) -> list[Any]:
    """The output's items; those that end a model call are marked, or all where no call can be told from another."""
    ends = [RECORD_FIELD in item or bool(item.get(_SAMPLED)) for item in output]
    marks = ends if any(ends) else [True] * len(output)
    return [
        _plain(item) | ({_SAMPLED: [0]} if mark else {}) for item, mark in zip(output, marks, strict=True)
    ]


def _sampled_places(completion: list[Message]) -> frozenset[int]:
    return frozenset(
        place
        for place, message in enumerate(completion)
        if message["role"] == "assistant" and _SAMPLED in message
    )


def _unmarked(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != _SAMPLED}


def _reason_of(item: Mapping[str, Any]) -> Any:
    record = item.get(RECORD_FIELD)
    return record.get("reason") if isinstance(record, Mapping) else None


def _has_reasoning(given: list[Any], output: Any) -> bool:
    return any(isinstance(item, Mapping) and item.get("type") == "reasoning" for item in [*given, *output])


class _Tidying:
    """Writes the messages of one conversation in the wanted form."""

    def __init__(self, options: TextOptions, text_only: bool) -> None:
        self._arguments_as_objects = options.arguments == "object"
        self._text_only = text_only
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def message(self, message: Message) -> Message:
        tidy: Message = {"role": message["role"], "content": self._content(message.get("content"))}
        reasoning = next((message[name] for name in REASONING_FIELDS if message.get(name)), None)
        if reasoning is not None:
            tidy["reasoning_content"] = reasoning
        if message.get("tool_calls"):
            tidy["tool_calls"] = [self._call(call) for call in message["tool_calls"]]
        if message["role"] == "tool":
            tidy["tool_call_id"] = self._id(message["tool_call_id"])
            tidy["name"] = self._name_of(tidy["tool_call_id"])
        elif message.get("name") is not None:
            tidy["name"] = message["name"]
        return tidy

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
            parsed = orjson.loads(arguments or "{}")
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

    def _name_of(self, call: str) -> str:
        if call not in self._names:
            raise Unsuitable(LeftOut.TURN_ORDER, "an output belongs to no call")
        return self._names[call]

    def _id(self, given: str) -> str:
        """`call00000`, `call00001`, …: nine letters and digits, which is what the strictest templates take."""
        return self._ids.setdefault(given, f"call{len(self._ids):05d}")
