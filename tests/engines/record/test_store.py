from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.ecosystem.model_calls import read_available_model_call_records
from nemo_gym.engines.record.files import RecordWriter
from nemo_gym.engines.record.store import CaptureStore, ModelCallCaptureConfig, make_capture_store
from nemo_gym.failures import InputError


def test_a_damaged_line_hides_no_other(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    store.path_for("0-0").write_text('{"model_call_id": "a"}\n{"torn\n{"model_call_id": "b"}\n')
    records, damaged = read_available_model_call_records(store, "0-0")
    assert ([each.call_index for each in records], damaged) == ([0, 2], 1)
    with pytest.raises(ValueError):
        store.read("0-0")


def test_the_calls_of_the_record_and_of_the_file_are_one_list(tmp_path: Path) -> None:
    """The refused calls of an opened rollout are in the file."""
    store, writer = CaptureStore(tmp_path), RecordWriter("policy_model")
    (tmp_path / "r").mkdir()
    delta: dict[str, Any] = {"base": None, "kept": 0, "items": [], "set": {"model": "m"}}
    about = {"server": "policy_model", "dialect": "chat", "started_at": 1.0, "request": delta}
    writer.append(tmp_path / "r", {"model_call_id": "a", "completed_at": 1.5, **about})
    store.record("r", {"model_call_id": "b", "completed_at": 2.0, "error_category": "rollout_sealed"})
    extended = {"base": "a", "kept": 0, "items": [{"role": "user"}], "set": {}}
    writer.append(tmp_path / "r", {"model_call_id": "c", "completed_at": 3.0, **about, "request": extended})
    records, damaged = read_available_model_call_records(store, "r")
    assert [(each.call_index, each.model_call_id) for each in records] == [(0, "a"), (1, "b"), (2, "c")]
    assert records[2].request == {"messages": [{"role": "user"}], "model": "m"}
    assert (records[0].latency_total_ms, damaged) == (500.0, 0)


def test_a_torn_line_of_the_file_costs_no_other_line(tmp_path: Path) -> None:
    store = CaptureStore(tmp_path)
    store.record("0-0", {"model_call_id": "a"})
    with store.path_for("0-0").open("ab") as file:
        file.write(b'{"model_call_id": "b", "requ')
    store.record("0-0", {"model_call_id": "c"})
    found, damaged = store.read_available("0-0")
    assert ([call["model_call_id"] for _, call in found], damaged) == (["a", "c"], 1)


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a/b", "a\0b"])
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="file name"):
        CaptureStore(tmp_path).path_for(name)


def test_the_capture_needs_a_folder(tmp_path: Path) -> None:
    assert make_capture_store(ModelCallCaptureConfig()) is None
    with pytest.raises(ValueError, match="model_call_capture_dir"):
        ModelCallCaptureConfig(observability_enabled=True)
    store = make_capture_store(
        ModelCallCaptureConfig(observability_enabled=True, model_call_capture_dir=tmp_path)
    )
    assert store is not None
    assert store.root == tmp_path
