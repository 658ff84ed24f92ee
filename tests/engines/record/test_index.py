from __future__ import annotations

from pathlib import Path

from nemo_gym.engines.record.files import RecordWriter
from nemo_gym.engines.record.index import RolloutIndices

LINE = {
    "model_call_id": "a",
    "dialect": "chat",
    "digest": "d",
    "completed_at": 1,
    "status_code": 200,
    "sampled_tokens": 7,
    "request": {"base": None, "kept": 0, "items": [], "set": {}},
    "response": {"id": "x"},
}


def test_the_calls_of_other_servers_count(tmp_path: Path) -> None:
    indices = RolloutIndices()
    assert indices.read_index(tmp_path).calls == 0
    RecordWriter("one").append(tmp_path, LINE)
    RecordWriter("two").append(tmp_path, {**LINE, "model_call_id": "b", "status_code": 500, "digest": "e"})
    index = indices.read_index(tmp_path)
    assert (index.calls, index.sampled_tokens) == (2, 14)
    assert index.answer_to("d") == {"id": "x"}
    assert index.answer_to("e") is None  # it failed
    indices.drop(tmp_path)
    assert indices.read_index(tmp_path).calls == 2
