"""The record of a rollout as its control route answers it: calls, tree, segments, and the reasons of masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from nemo_gym.engines.record.deltas import apply_delta
from nemo_gym.responses.messages_request import dump_arguments
from nemo_gym.responses.schemas import add_counts
from nemo_gym.responses.turns import ITEMS_OF_API, Turn, join_item_texts, read_answer_turns, read_item_turns
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.reasons import UntrainedReason
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, TokenForm
from nemo_gym.tokens.segments import Segment, build_segments
from nemo_gym.tokens.tree import (
    CallTree,
    TrainedPaths,
    collect_ancestors,
    find_root,
    find_untrained_calls,
    main_root,
)


@dataclass(slots=True)
class RecordedRollout:
    """A rollout's calls and their tree."""

    lines: Sequence[Mapping[str, Any]]
    paths: TrainedPaths = TrainedPaths.REACHED_END
    tree: CallTree = field(default_factory=CallTree)
    requests: dict[str, tuple[list[Any], dict[str, Any]]] = field(default_factory=dict)
    """The messages and the other fields of each call's request."""
    untrained: dict[str, UntrainedReason] = field(default_factory=dict)
    _turns: dict[str, list[tuple[Turn, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        answers: dict[str, str] = {}
        dialects = {line["model_call_id"]: line["dialect"] for line in self.lines}

        def read_prompt(call: str) -> str:
            return _join_texts(*self.requests[call], dialects[call])

        for line in self.lines:
            call, delta = line["model_call_id"], line["request"]
            self.requests[call] = apply_delta(self.requests.get(delta["base"]), delta)
            answer = read_answer_turns(line["response"]) if line["status_code"] == 200 else None
            self.tree.add(call, line["digest"], self._prompt(line), answer, partial(read_prompt, call))
            answers[call] = "\n".join(turn.text for turn in answer or () if turn.text is not None)
        self.untrained = find_untrained_calls(self.tree.nodes, self.paths, answers, read_prompt)

    def _prompt(self, line: Mapping[str, Any]) -> list[Turn]:
        delta = line["request"]
        kept = self._turns.get(delta["base"], [])[: delta["kept"]]
        turns = self._turns[line["model_call_id"]] = [*kept, *map(read_item_turns, delta["items"])]
        text = self.requests[line["model_call_id"]][1].get(ITEMS_OF_API[line["dialect"]])
        lead = read_item_turns({"role": "user", "content": text}) if isinstance(text, str) else ()
        return [*lead, *(turn for item in turns for turn in item)]

    def records(self) -> dict[str, CallRecord]:
        """Return the token records of the calls that have one. Records that cannot be rebuilt are masked."""
        wire = {line["model_call_id"]: line["tokens"] for line in self.lines if "tokens" in line}
        read = read_calls({"response": {"output": [{RECORD_FIELD: tokens} for tokens in wire.values()]}})
        return {
            call: replace(record, untrained=self.untrained.get(call))
            for call, record in zip(wire, read, strict=True)
        }

    def to_json(self) -> dict[str, Any]:
        """Return `calls`, `tree`, `segments`, and the counts `masked` and `dropped_fields`."""
        records = self.records()
        calls, in_order = list(records), list(records.values())
        masked = Counter(record.masked.value for record in in_order if record.masked is not None)
        masked.update(reason.value for reason in self.untrained.values())
        notes: Counter[str] = Counter()
        for line in self.lines:
            notes.update(line.get("notes", {}))
        return {
            "calls": list(self.lines),
            "tree": self._tree_json(),
            "segments": [_segment_json(segment, calls) for segment in build_segments(in_order)],
            "masked": dict(masked),
            "dropped_fields": dict(notes),
            "response": self._response(records),
        }

    def _tree_json(self) -> dict[str, Any]:
        nodes = {
            call: {
                "parent": node.parent,
                "edge": node.edge.value,
                "beside": node.beside,
                "untrained": self.untrained.get(call),
            }
            for call, node in self.tree.nodes.items()
        }
        return {"main": main_root(self.tree.nodes), "nodes": nodes}

    def _response(self, records: Mapping[str, CallRecord]) -> dict[str, Any] | None:
        """Return the calls that reached the end as one Responses object; None without an answered call."""
        nodes = self.tree.nodes
        root = main_root({call: node for call, node in nodes.items() if node.is_answered})
        usable = (call for call in reversed(nodes) if call not in self.untrained)
        end = next((call for call in usable if find_root(nodes, call) == root), None)
        main = collect_ancestors(nodes, end) if end is not None else set()
        return build_trace(self.lines, records, main)


def _join_texts(items: list[Any], fields: Mapping[str, Any], api: str) -> str:
    text = fields.get(ITEMS_OF_API[api])
    return join_item_texts([*items, {"content": text if isinstance(text, str) else ""}])


def _segment_json(segment: Segment, calls: Sequence[str]) -> dict[str, Any]:
    about = asdict(segment)
    spans = [[start, end, calls[call], part.value] for start, end, call, part in segment.spans]
    return {**about, "calls": [calls[call] for call in segment.calls], "spans": spans}


# --- The trace --------------------------------------------------------------------------------------------------------
# A recorded rollout as one Responses object, which verifiers and exports read like that of any agent.
# Its output holds the answers and tool outputs of the main conversation, in order. Every call has its token record
# on one item. Calls beside the main conversation, such as those of subagents, are reasoning items without text.


_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def build_trace(
    lines: Sequence[Mapping[str, Any]],
    records: Mapping[str, CallRecord],
    main: Collection[str],
) -> dict[str, Any] | None:
    """Return the Responses object of recorded calls; None if none was answered. `main` are those of the main path.

    Its usage is that of all answered calls together.
    """
    output: list[dict[str, Any]] = []
    usage: dict[str, int] = {}
    model = ""
    for line in lines:
        call = line["model_call_id"]
        if line["status_code"] != 200:
            continue
        usage = add_counts(usage, _read_usage(line["response"]))
        items = _build_hidden_reasoning(call)
        if call in main:
            model = line["response"].get("model") or model
            output += _tool_outputs(line["request"]["items"])
            items = list(_answer_items(line["response"], call)) or items
        if call in records:
            record = records[call].to_wire(TokenForm.PACKED)
            items[-1] = {**items[-1], RECORD_FIELD: record}
        elif call not in main:
            continue
        output += items
    if not output:
        return None
    about = {"id": "resp_rollout", "object": "response", "created_at": int(lines[0]["started_at"])}
    fixed = {"status": "completed", "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**about, "model": model, "output": output, "usage": usage or None, **fixed}


def _read_usage(answer: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of an answer of any API by the names of the Responses API; nothing if they are unknown."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return {}
    given = int(usage.get("input_tokens") or usage.get("prompt_tokens") or 0)
    sampled = int(usage.get("output_tokens") or usage.get("completion_tokens") or 0)
    return {"input_tokens": given, "output_tokens": sampled, "total_tokens": given + sampled}


def _build_hidden_reasoning(call: str) -> list[dict[str, Any]]:
    return [{"type": "reasoning", "id": f"rs_{call}", "summary": []}]


def _tool_outputs(items: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the outputs of tools among the messages or items that a call added."""
    for item in items:
        if not isinstance(item, Mapping):
            continue
        if item.get("type") in _OUTPUTS:
            yield _tool_output(item.get("call_id"), item.get("output"))
        elif item.get("role") == "tool":
            yield _tool_output(item.get("tool_call_id"), item.get("content"))
        for block in item["content"] if isinstance(item.get("content"), list) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                yield _tool_output(block.get("tool_use_id"), block.get("content"))


def _tool_output(call_id: object, content: object) -> dict[str, Any]:
    text = join_item_texts([{"content": content}])
    return {"type": "function_call_output", "call_id": str(call_id), "output": text}


def _answer_items(answer: Mapping[str, Any], call: str) -> Iterator[dict[str, Any]]:
    if isinstance(answer.get("output"), list):
        for item in answer["output"]:
            if item.get("type") == "custom_tool_call":
                yield _function_call(item["call_id"], item["name"], dump_arguments({"input": item["input"]}))
            else:
                yield item
        return
    choices = answer.get("choices")
    message = choices[0]["message"] if choices else {"content": answer.get("content")}
    content = message.get("content") or []
    for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if block.get("type") == "text":
            part = {"type": "output_text", "text": block["text"], "annotations": []}
            about = {"type": "message", "id": f"msg_{call}", "role": "assistant", "status": "completed"}
            yield {**about, "content": [part]}
        elif block.get("type") == "tool_use":
            yield _function_call(block["id"], block["name"], dump_arguments(block["input"]))
    for each in message.get("tool_calls") or ():
        yield _function_call(each["id"], each["function"]["name"], each["function"]["arguments"])


def _function_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
