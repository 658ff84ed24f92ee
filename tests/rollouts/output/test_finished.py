"""Which rollouts a file holds."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.finished import read_durations
from nemo_gym.rollouts.output.finished import read_finished as read_stored
from nemo_gym.rows.identity import FinishedRollouts, RolloutId


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def read_finished(path: Path) -> FinishedRollouts:
    return read_stored(path, lambda _: True).finished


def test_our_rows_and_those_of_others_are_found(tmp_path: Path) -> None:
    ours = RolloutId(3, 1).head() + b'"reward":1.0}'
    others = orjson.dumps({"reward": 1.0, "_ng_task_index": 4, "_ng_rollout_index": 0})
    spaced = b'{ "_ng_task_index": 5, "_ng_rollout_index": 2 }'
    finished = read_finished(write(tmp_path / "rows.jsonl", ours, others, spaced))
    assert len(finished) == 3
    assert all(RolloutId(*each) in finished for each in ((3, 1), (4, 0), (5, 2)))


def test_an_identity_quoted_inside_a_row_is_not_taken_for_the_rows_own(tmp_path: Path) -> None:
    quoted = orjson.dumps(
        {"text": '\n{"_ng_task_index":9,"_ng_rollout_index":9,', "_ng_task_index": 1, "_ng_rollout_index": 0}
    )
    finished = read_finished(write(tmp_path / "rows.jsonl", quoted))
    assert RolloutId(1, 0) in finished
    assert len(finished) == 1


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    assert len(read_finished(write(tmp_path / "rows.jsonl"))) == 0


@pytest.mark.parametrize("line", [b"not json", b"[]", b'{"reward": 1.0}', b'{"_ng_task_index": 1}'])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: bytes) -> None:
    path = write(tmp_path / "rows.jsonl", RolloutId(0, 0).head() + b'"a":1}', line)
    with pytest.raises(ConfigError, match=r"rows\.jsonl:2:"):
        read_finished(path)


def test_two_rows_of_one_rollout_are_refused(tmp_path: Path) -> None:
    line = RolloutId(0, 0).head() + b'"a":1}'
    with pytest.raises(ConfigError, match="duplicate row of task 0, repeat 0"):
        read_finished(write(tmp_path / "rows.jsonl", line, line))


@pytest.mark.parametrize("identity", ["-1,0", "0,-1", "0,7", "2,0", f"0,{10**15}", f"{10**15},0"])
def test_rows_outside_the_plan_are_counted_and_not_finished(tmp_path: Path, identity: str) -> None:
    task, repeat = identity.split(",")
    other = f'{{"_ng_task_index":{task},"_ng_rollout_index":{repeat},"reward":1}}'.encode()
    path = write(tmp_path / "rows.jsonl", RolloutId(1, 0).head() + b'"a":1}', other, other)
    finished, unplanned = read_stored(path, lambda one: one.task in range(2) and one.repeat in range(2))
    assert (len(finished), unplanned) == (1, 2)


def test_the_time_of_a_task_is_that_of_its_longest_rollout(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    timings = [(0, {"total": 2.0}), (0, {"total": 3.0}), (1, None), (2, {"act": 1.0})]
    path.write_bytes(
        b"".join(
            orjson.dumps({"_ng_task_index": task, "_ng_timing": timing}) + b"\n" for task, timing in timings
        )
    )
    assert read_durations(path) == {0: 3.0}
    assert read_durations(tmp_path / "missing.jsonl") == {}
