"""The record of a rollout as its control route answers it: calls, tree, segments, and the reasons of masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from nemo_gym.engines.gateway.trace import trace_of
from nemo_gym.engines.record.deltas import with_delta
from nemo_gym.responses.turns import ITEMS_OF_API, Turn, text_of_items, turns_of_answer, turns_of_item
from nemo_gym.rows.calls import calls_of
from nemo_gym.tokens.reasons import UntrainedReason
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord
from nemo_gym.tokens.segments import Segment, segments_of
from nemo_gym.tokens.tree import CallTree, TrainedPaths, led_to, main_root, root_of, untrained_calls


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

        def prompt_of(call: str) -> str:
            return _text_of(*self.requests[call], dialects[call])

        for line in self.lines:
            call, delta = line["model_call_id"], line["request"]
            self.requests[call] = with_delta(self.requests.get(delta["base"]), delta)
            answer = turns_of_answer(line["response"]) if line["status_code"] == 200 else None
            self.tree.add(call, line["digest"], self._prompt(line), answer, partial(prompt_of, call))
            answers[call] = "\n".join(turn.text for turn in answer or () if turn.text is not None)
        self.untrained = untrained_calls(self.tree.nodes, self.paths, answers, prompt_of)

    def _prompt(self, line: Mapping[str, Any]) -> list[Turn]:
        delta = line["request"]
        kept = self._turns.get(delta["base"], [])[: delta["kept"]]
        turns = self._turns[line["model_call_id"]] = [*kept, *map(turns_of_item, delta["items"])]
        text = self.requests[line["model_call_id"]][1].get(ITEMS_OF_API[line["dialect"]])
        lead = turns_of_item({"role": "user", "content": text}) if isinstance(text, str) else ()
        return [*lead, *(turn for item in turns for turn in item)]

    def records(self) -> dict[str, CallRecord]:
        """Return the token records of the calls that have one. Records that cannot be rebuilt are masked."""
        wire = {line["model_call_id"]: line["tokens"] for line in self.lines if "tokens" in line}
        read = calls_of({"response": {"output": [{RECORD_FIELD: tokens} for tokens in wire.values()]}})
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
            "segments": [_segment_json(segment, calls) for segment in segments_of(in_order)],
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
        end = next((call for call in usable if root_of(nodes, call) == root), None)
        main = led_to(nodes, end) if end is not None else set()
        return trace_of(self.lines, records, main)


def _text_of(items: list[Any], fields: Mapping[str, Any], api: str) -> str:
    text = fields.get(ITEMS_OF_API[api])
    return text_of_items([*items, {"content": text if isinstance(text, str) else ""}])


def _segment_json(segment: Segment, calls: Sequence[str]) -> dict[str, Any]:
    about = asdict(segment)
    spans = [[start, end, calls[call], part.value] for start, end, call, part in segment.spans]
    return {**about, "calls": [calls[call] for call in segment.calls], "spans": spans}
