"""The record of a rollout as its control route answers it: calls, tree, segments, and the reasons of masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from nemo_gym.engines.gateway.trace import build_trace
from nemo_gym.engines.record.deltas import apply_delta
from nemo_gym.responses.turns import ITEMS_OF_API, Turn, join_item_texts, read_answer_turns, read_item_turns
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.reasons import UntrainedReason
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord
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
