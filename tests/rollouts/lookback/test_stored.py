from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.health import check_health
from nemo_gym.rollouts.lookback.stored import IndexedRows, StoredRun, find_results
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.verdict import is_judge_failure
from tests.rollouts.stored_runs import failure_row, judge_failure_row, scored_row, store


def test_rows_are_found_by_their_identity_whatever_their_order(tmp_path: Path) -> None:
    rows = [scored_row(2), scored_row(0, 1, 0.5), scored_row(0, 0)]
    run = StoredRun(store(tmp_path / "run.jsonl", rows))
    assert [run.scored.row(RolloutId(0, repeat))["reward"] for repeat in (0, 1)] == [1.0, 0.5]
    assert list(run.scored) == [(2, 0), (0, 1), (0, 0)]
    assert RolloutId(1, 0) not in run.scored
    assert run.tasks.row(RolloutId(2, 0))["answer"] == 2
    run.close()


def test_of_several_failures_of_a_rollout_the_last_counts_and_those_that_succeeded_do_not(
    tmp_path: Path,
) -> None:
    failures = [failure_row(0, kind="a"), failure_row(0, kind="b"), failure_row(1)]
    run = StoredRun(store(tmp_path / "run.jsonl", [scored_row(1)], failures))
    assert list(run.list_failed()) == [(0, 0)]
    assert run.failures.row(RolloutId(0, 0))["_ng_failure_class"] == "b"
    run.close()


def test_a_score_given_twice_is_damage(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.jsonl:2: duplicate row of task 0, repeat 0"):
        StoredRun(store(tmp_path / "run.jsonl", [scored_row(0), scored_row(0)]))


def test_a_run_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no run at"):
        StoredRun(tmp_path / "run.jsonl")
    assert len(IndexedRows(tmp_path / "nothing.jsonl")) == 0


def test_different_runs_have_different_digests(tmp_path: Path) -> None:
    digests = set()
    for name, rows, failures in (
        ("a", [scored_row(0)], []),
        ("b", [scored_row(0, reward=0.0)], []),
        ("c", [scored_row(0)], [failure_row(1)]),
        ("d", [scored_row(0)], []),
    ):
        run = StoredRun(store(tmp_path / f"{name}.jsonl", rows, failures))
        digests.add(run.digest())
        run.close()
    assert len(digests) == 3


def test_a_judge_failure_is_one_with_a_response() -> None:
    assert is_judge_failure(judge_failure_row(0))
    assert not is_judge_failure(failure_row(0, kind="judge_failed"))
    assert not is_judge_failure(failure_row(0, response={}))


def test_rows_of_other_programs_are_numbered_by_their_lines(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    rows.write_text('{"reward": 1.0}\n{"reward": 0.0}\n')
    run = StoredRun(rows)
    assert list(run.scored) == [RolloutId(0, 0), RolloutId(1, 0)]
    assert run.scored.row(RolloutId(1, 0)) == {"reward": 0.0}
    run.close()


def test_blank_lines_are_skipped_and_counted_as_lines(tmp_path: Path) -> None:
    path = store(tmp_path / "run.jsonl", [scored_row(0), scored_row(1)])
    path.write_bytes(b"\n" + path.read_bytes().replace(b"}\n{", b"}\n  \n\r\n{") + b"\n")
    run = StoredRun(path)
    assert [run.scored.row(RolloutId(task, 0))["_ng_task_index"] for task in (0, 1)] == [0, 1]
    run.close()
    path.write_bytes(b"\n" + path.read_bytes() + orjson.dumps(scored_row(1)) + b"\n")
    with pytest.raises(ConfigError, match=r"run\.jsonl:8: duplicate row of task 1, repeat 0"):
        StoredRun(path)


def test_a_run_that_was_killed_describes_its_progress(tmp_path: Path) -> None:
    rows = store(tmp_path / "run.jsonl", [scored_row(0)])
    manifest = {"schema_version": 1, "identity": {}, "starts": [{"planned": 3}]}
    (tmp_path / "run_run.json").write_bytes(orjson.dumps(manifest))
    run = StoredRun(rows)
    (said,) = run.describe_progress()
    assert said.startswith(f"{rows}: 1 of 3 planned rollouts; the run has not ended")
    run.close()


def test_a_byte_order_mark_belongs_to_no_row(tmp_path: Path) -> None:
    path = store(tmp_path / "run.jsonl", [scored_row(0), scored_row(1)])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    run = StoredRun(path)
    assert [run.scored.row(RolloutId(task, 0))["_ng_task_index"] for task in (0, 1)] == [0, 1]
    run.close()


def test_rows_of_one_prompt_are_repeats_of_a_task(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    lines = [orjson.dumps({"responses_create_params": {"input": ask}, "reward": 1.0}) for ask in "aba"]
    rows.write_bytes(b"\n".join(lines))
    run = StoredRun(rows)
    assert list(run.scored) == [(0, 0), (1, 0), (0, 1)]
    run.close()


@pytest.mark.parametrize(
    "row", [{"responses_create_params": {}, "answer": 1}, {"messages": []}, {"unit": 0, "repeat": 1}, {}]
)
def test_rows_of_another_kind_are_refused(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n" + orjson.dumps(row) + b"\n")
    for read in (StoredRun, check_health):
        with pytest.raises(
            ConfigError, match=r"rows.jsonl:2: no result of a rollout: it has neither reward nor"
        ):
            read(path)


@pytest.mark.parametrize("row", [{"reward": 1.0}, {"response": {}}, {"_ng_failure_class": "judge_failed"}])
def test_rows_of_other_gyms_and_failures_are_results(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(orjson.dumps(row) + b"\n")
    assert find_results(path).rows == path
