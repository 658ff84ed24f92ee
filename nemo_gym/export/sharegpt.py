"""ShareGPT: `conversations` of `from` and `value`, with `tools` as JSON text, as LLaMA-Factory reads them.

Turns alternate: `human` or `observation`, then `gpt` or `function_call`; the last turn is one of the latter. A call
can't carry text beside it. The outputs of parallel calls are one observation, a JSON list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import orjson

from nemo_gym.export._conversation import (
    LOSSES_OF_TEXT,
    ChatTranscript,
    Message,
    TextOptions,
    read_conversation,
)
from nemo_gym.export.formats import FINISHED, SOLVED, ExportRecord, Format
from nemo_gym.export.report import LeftOut, Loss, Unsuitable
from nemo_gym.export.rollouts import Group, ScoredRollout
from nemo_gym.json_objects import dump_json, parse_json

_ASKING = frozenset({"human", "observation"})


class ShareGpt(Format[TextOptions]):
    name = "sharegpt"
    summary = "conversations of human, gpt, function_call and observation (LLaMA-Factory and others)"
    options_type = TextOptions
    outcomes = FINISHED
    min_reward = SOLVED
    merges_equal_rows = learns_answers = True
    losses = (*LOSSES_OF_TEXT, Loss.TEXT_BESIDE_CALLS, Loss.JOINED_OUTPUTS)
    example = "ng_export +format=sharegpt +input=rollouts.jsonl +output=data/sharegpt.jsonl +min_reward=1"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        for _, (turns, chat, losses) in self.report.suitable(group.selected, self._read):
            self.report.export(losses)
            row: ExportRecord = {"conversations": turns}
            if chat.tools:
                row["tools"] = orjson.dumps([tool["function"] for tool in chat.tools]).decode()
            yield row

    def _read(self, rollout: ScoredRollout) -> tuple[list[ExportRecord], ChatTranscript, set[Loss]]:
        chat = read_conversation(rollout, self.options).require_own_turns()
        losses = set(chat.losses_of_sft)
        turns = _join_turns(chat.messages, losses)
        _require_order([turn["from"] for turn in turns])
        return turns, chat, losses


def _join_turns(messages: list[Message], losses: set[Loss]) -> list[ExportRecord]:
    """Return the turns; the outputs of parallel calls are one turn."""
    turns: list[ExportRecord] = []
    for is_output, adjacent in groupby(messages, key=lambda message: message["role"] == "tool"):
        if is_output:
            outputs = [message["content"] for message in adjacent]
            turns.append({"from": "observation", "value": _observation(outputs, losses)})
        else:
            turns += [_turn(message, losses) for message in adjacent]
    return turns


def _observation(outputs: list[str], losses: set[Loss]) -> str:
    if len(outputs) == 1:
        return outputs[0]
    losses.add(Loss.JOINED_OUTPUTS)
    return orjson.dumps(outputs).decode()


def _turn(message: Message, losses: set[Loss]) -> ExportRecord:
    if "reasoning_content" in message:
        losses.add(Loss.REASONING)
    if "tool_calls" in message:
        if message["content"]:
            losses.add(Loss.TEXT_BESIDE_CALLS)
        calls = [_call(call) for call in message["tool_calls"]]
        value = dump_json(calls[0] if len(calls) == 1 else calls).decode()
        return {"from": "function_call", "value": value}
    kind = {"system": "system", "user": "human", "assistant": "gpt"}[message["role"]]
    return {"from": kind, "value": message["content"]}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    parsed = parse_json(arguments) if isinstance(arguments, str) else arguments
    return {"name": function["name"], "arguments": parsed}


def _require_order(kinds: list[str]) -> None:
    turns = kinds[1:] if kinds[:1] == ["system"] else kinds
    asks = [kind in _ASKING for kind in turns]
    if "system" in turns or len(turns) % 2 or asks != [True, False] * (len(turns) // 2):
        raise Unsuitable(LeftOut.TURN_ORDER, " ".join(kinds[:8]))
