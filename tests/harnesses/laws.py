"""Laws that hold on the record of every rollout."""

from __future__ import annotations

from typing import Any

from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord


def check_laws(record: dict[str, Any], engine_calls: int) -> None:
    """Each call of the engine is in one node, and each sampled token of a trained call in one segment."""
    calls, nodes = record["calls"], record["tree"]["nodes"]
    names = [call["model_call_id"] for call in calls]
    assert list(nodes) == names
    answered = [call["model_call_id"] for call in calls if call["status_code"] == 200]
    assert len(answered) == engine_calls
    trained = {call for call, node in nodes.items() if node["untrained"] is None}
    in_segments = [call for segment in record["segments"] for call in segment["calls"]]
    assert sorted(in_segments) == sorted(trained)
    tokens = {call: record.tokens for call, record in records_of(record).items()}
    sampled = sum(
        len(each.generated) for call, each in tokens.items() if call in trained and each is not None
    )
    assert sum(sum(segment["loss_mask"]) for segment in record["segments"]) == sampled > 0


def records_of(record: dict[str, Any]) -> dict[str, CallRecord]:
    """Return the token records by call."""
    calls = [call for call in record["calls"] if "tokens" in call]
    read = read_calls({"response": {"output": [{RECORD_FIELD: call["tokens"]} for call in calls]}})
    return dict(zip((call["model_call_id"] for call in calls), read, strict=True))


def main_path(record: dict[str, Any]) -> list[str]:
    """Return the calls of the main conversation, from its root to its end."""
    nodes = record["tree"]["nodes"]
    ends = [call for call in nodes if nodes[call]["untrained"] is None]
    paths = [lineage_of(nodes, end) for end in ends]
    return max((path for path in paths if path[0] == record["tree"]["main"]), key=len)


def lineage_of(nodes: dict[str, Any], call: str | None) -> list[str]:
    path: list[str] = []
    while call is not None:
        path.insert(0, call)
        call = nodes[call]["parent"]
    return path


def check_linear(record: dict[str, Any], line_bytes: dict[str, int]) -> None:
    """Every turn but the first goes on from the tokens before it, and adds the same number of bytes."""
    path = main_path(record)
    edges = {call: record["tree"]["nodes"][call]["edge"] for call in path}
    assert set(edges.values()) == {"root", "continues"}, edges
    kept = {
        call["model_call_id"]: call["tokens"].get("kept", 0) for call in record["calls"] if "tokens" in call
    }
    assert all(kept[call] > 0 for call in path[1:]), [kept[call] for call in path]
    early, late = ([line_bytes[call] for call in part] for part in (path[1:11], path[-13:-3]))
    assert sum(late) < 1.5 * sum(early), (early, late)
