"""Which rollouts a file holds."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.finished import read_finished
from nemo_gym.rollouts.plan.identity import RolloutId


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


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
