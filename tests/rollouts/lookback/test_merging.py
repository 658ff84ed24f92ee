from __future__ import annotations

import os
import random
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.account import RunAccount
from nemo_gym.rollouts.lookback.merging import merge_shards
from nemo_gym.rollouts.lookback.ranking import rank_runs
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing, open_journal
from nemo_gym.rollouts.output.run_state import RunState
from nemo_gym.rollouts.run.run_metrics import RunMetrics
from nemo_gym.rows.identity import RolloutId
from nemo_gym.viewer.finding import find_runs
from tests.rollouts.doubles import all_planned, identities, read_rows
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.shards import store_shard
from tests.rollouts.stored_runs import failure_row, scored_row, store

TASKS, REPEATS = 6, 3


def rollouts() -> list[dict[str, Any]]:
    """Rows of a run, most of them scored, of two agents."""
    rng = random.Random(5)
    rows = []
    for task, repeat in product(range(TASKS), range(REPEATS)):
        agent = "one" if task % 2 else "other"
        made = failure_row if rng.random() < 0.2 else scored_row
        row = made(task, repeat, agent=agent)
        rows.append(row | ({"reward": rng.random()} if made is scored_row else {}))
    return rows


def contents(folder: Path, stem: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob(f"{stem}*"))}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cut=st.lists(st.integers(0, 2), min_size=TASKS * REPEATS, max_size=TASKS * REPEATS), seed=st.integers()
)
def test_however_a_run_is_cut_into_shards_the_merged_files_are_the_same(
    tmp_path: Path, cut: list[int], seed: int
) -> None:
    rows = rollouts()
    whole = store_shard(tmp_path / "whole.jsonl", rows)
    expected = merge_shards([whole], tmp_path / "a" / "merged.jsonl", overwrite=True)
    shuffled = list(zip(rows, cut, strict=True))
    random.Random(seed).shuffle(shuffled)
    shards = [
        store_shard(tmp_path / f"shard_{number}.jsonl", mine)
        for number in range(3)
        if (mine := [row for row, shard in shuffled if shard == number])
    ]
    merged = merge_shards(shards[::-1], tmp_path / "b" / "merged.jsonl", overwrite=True)
    assert contents(tmp_path / "b", "merged") == contents(tmp_path / "a", "merged")
    assert merged.results == expected.results
    assert merged.rows + merged.failures == TASKS * REPEATS
    assert merged.results["one"]["agent_metrics"]["count/rollouts"] == TASKS // 2 * REPEATS


def test_the_metrics_are_those_of_the_unsharded_run(tmp_path: Path) -> None:
    rows = rollouts()
    metrics = RunMetrics()
    for row in rows:
        metrics.note_row(row)
    shards = [store_shard(tmp_path / f"{n}.jsonl", rows[n::2]) for n in range(2)]
    assert merge_shards(shards, tmp_path / "merged.jsonl").results == metrics.results({})


def test_rows_stand_in_the_order_of_their_identities(tmp_path: Path) -> None:
    one = store_shard(tmp_path / "one.jsonl", [scored_row(3), scored_row(0, 1)])
    two = store_shard(tmp_path / "two.jsonl", [scored_row(1), scored_row(0, 0)])
    merged = merge_shards([one, two], tmp_path / "merged.jsonl")
    assert identities(read_rows(merged.files.rows)) == [(0, 0), (0, 1), (1, 0), (3, 0)]
    assert identities(read_rows(merged.files.materialized_inputs)) == [(0, 0), (0, 1), (1, 0), (3, 0)]


def test_shards_and_whole_may_be_compressed(tmp_path: Path) -> None:
    shards = [store_shard(tmp_path / f"{n}.jsonl", [scored_row(n), failure_row(n, 1)]) for n in range(2)]
    merged = merge_shards(shards, tmp_path / "packed.jsonl.zst")
    again = merge_shards([merged.files.rows], tmp_path / "plain.jsonl")
    plain = merge_shards(shards, tmp_path / "direct.jsonl")
    assert again.files.rows.read_bytes() == plain.files.rows.read_bytes()
    assert again.files.failures.read_bytes() == plain.files.failures.read_bytes()
    assert again.results == plain.results
    with pytest.raises(ConfigError, match=r"the output exists in another form: .*packed\.jsonl\.zst"):
        merge_shards(shards, tmp_path / "packed.jsonl", overwrite=True)


def test_what_was_planned_and_left_no_trace_is_missing_in_the_whole_too(tmp_path: Path) -> None:
    shards = [store_shard(tmp_path / f"{n}.jsonl", [scored_row(n)]) for n in range(2)]
    path = tmp_path / "0_aggregate_metrics.json"
    document = orjson.loads(path.read_bytes())
    document[0]["agent_metrics"] |= {"count/tasks": 2, "count/rollouts": 2}
    path.write_bytes(orjson.dumps(document))
    metrics = merge_shards(shards, tmp_path / "merged.jsonl").results["simple_agent"]["agent_metrics"]
    assert (metrics["count/tasks"], metrics["count/rollouts"], metrics["count/scored"]) == (3, 3, 2)


def test_shards_that_overlap_are_refused_with_both_named(tmp_path: Path) -> None:
    one = store_shard(tmp_path / "one.jsonl", [scored_row(0), scored_row(1)])
    two = store_shard(tmp_path / "two.jsonl", [scored_row(1)])
    with pytest.raises(ConfigError, match=f"task 1, repeat 0: in {one} and {two}") as caught:
        merge_shards([one, two], tmp_path / "merged.jsonl")
    assert "+renumber=true" in (caught.value.failure.remedy or "")
    assert not (tmp_path / "merged.jsonl").exists()


def test_shards_with_different_tasks_of_one_index_are_refused(tmp_path: Path) -> None:
    """Their rollouts do not overlap, but the attempts at a task would be at two."""
    one = store_shard(tmp_path / "one.jsonl", [scored_row(0, 0), scored_row(1, 0)])
    other = store_shard(tmp_path / "other.jsonl", [scored_row(0, 1), scored_row(1, 1)])
    merge_shards([one, other], tmp_path / "merged.jsonl")
    inputs = tmp_path / "other_materialized_inputs.jsonl"
    lines = inputs.read_bytes().splitlines(keepends=True)
    inputs.write_bytes(lines[0] + lines[1].replace(b"question 1", b"question 7"))
    with pytest.raises(ConfigError, match=r"task 1 of .*one_mat.* is not that of .*other_mat"):
        merge_shards([one, other], tmp_path / "again.jsonl")
    assert not (tmp_path / "again.jsonl").exists()


def other(task: int, question: int, **fields: Any) -> dict[str, Any]:
    """A row of task `task`, which asks question `question`."""
    return {**scored_row(question, **fields), "_ng_task_index": task}


def store_other(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A run whose task rows ask what its rows ask."""
    store(path, rows)
    keys = ("_ng_task_index", "_ng_rollout_index", "responses_create_params", "answer", "agent_ref")
    sent = [{key: row[key] for key in keys} for row in rows]
    path.with_name(f"{path.stem}_materialized_inputs.jsonl").write_bytes(
        b"".join(orjson.dumps(row) + b"\n" for row in sent)
    )
    return path


def test_shards_that_number_tasks_of_their_own_are_numbered_through(tmp_path: Path) -> None:
    one = store_shard(tmp_path / "one.jsonl", [scored_row(0, reward=0.1), failure_row(1)])
    two = store_other(tmp_path / "two.jsonl", [other(0, 7, reward=0.3), other(1, 8, reward=0.4)])
    loose = [{"reward": 1.0, "_ng_rollout_index": 0, "_ng_task_index": 0, "agent_ref": {"name": "a"}}]
    three = store(tmp_path / "three.jsonl", loose, tasks=False)
    merged = merge_shards([one, two, three], tmp_path / "merged.jsonl", renumber=True)
    rows = read_rows(merged.files.rows)
    assert [(row["_ng_task_index"], row["reward"]) for row in rows] == [
        (0, 0.1),
        (2, 0.3),
        (3, 0.4),
        (4, 1.0),
    ]
    assert identities(read_rows(merged.files.failures)) == [(1, 0)]


@pytest.mark.parametrize("has_tasks", [True, False])
def test_equal_tasks_of_shards_are_one_task_with_the_repeats_of_all(tmp_path: Path, has_tasks: bool) -> None:
    one = store_other(tmp_path / "one.jsonl", [other(0, 5, repeat=0), other(1, 6), other(0, 5, repeat=1)])
    two = store_other(tmp_path / "two.jsonl", [other(0, 6, reward=0.0), other(1, 5, reward=0.5), other(2, 9)])
    if not has_tasks:
        for shard in ("one", "two"):
            (tmp_path / f"{shard}_materialized_inputs.jsonl").unlink()
    merged = merge_shards([one, two], tmp_path / "merged.jsonl", renumber=True)
    rows = read_rows(merged.files.rows)
    found = [
        (*identity, row["answer"], row["reward"])
        for identity, row in zip(identities(rows), rows, strict=True)
    ]
    assert found == [
        (0, 0, 5, 1.0),
        (0, 1, 5, 1.0),
        (0, 2, 5, 0.5),
        (1, 0, 6, 1.0),
        (1, 1, 6, 0.0),
        (4, 0, 9, 1.0),
    ]
    metrics = merged.results["simple_agent"]["agent_metrics"]
    assert (metrics["count/tasks"], metrics["count/rollouts"]) == (3, 6)


def test_tasks_with_one_input_and_other_answers_stay_apart(tmp_path: Path) -> None:
    shards = []
    for number in range(2):
        row = {**scored_row(0), "answer": number}
        shards.append(store_other(tmp_path / f"{number}.jsonl", [row]))
    rows = read_rows(merge_shards(shards, tmp_path / "merged.jsonl", renumber=True).files.rows)
    assert identities(rows) == [(0, 0), (1, 0)]


def test_a_run_that_is_named_twice_by_a_copy_counts_once(tmp_path: Path) -> None:
    rows = [scored_row(task, _ng_timing={"total": 0.25}) for task in range(3)]
    shards = [store_shard(tmp_path / f"{name}.jsonl", rows) for name in ("one", "copy")]
    merged = merge_shards(shards, tmp_path / "merged.jsonl", renumber=True)
    assert identities(read_rows(merged.files.rows)) == [(0, 0), (1, 0), (2, 0)]
    assert [note for note in merged.notes if note.startswith("3 rows are copies of rows of other shards")]
    metrics = merged.results["simple_agent"]["agent_metrics"]
    assert (metrics["count/tasks"], metrics["count/rollouts"], metrics["coverage/reward"]) == (3, 3, 100.0)


def test_equal_rows_that_prove_no_copy_are_repeats(tmp_path: Path) -> None:
    shards = [store_shard(tmp_path / f"{name}.jsonl", [scored_row(0)]) for name in ("one", "two")]
    merged = merge_shards(shards, tmp_path / "merged.jsonl", renumber=True)
    assert identities(read_rows(merged.files.rows)) == [(0, 0), (0, 1)]


def test_what_overlap_recommends_merges_the_repeats(tmp_path: Path) -> None:
    shards = [store_shard(tmp_path / f"{n}.jsonl", [scored_row(0, reward=n), failure_row(1)]) for n in (0, 1)]
    with pytest.raises(ConfigError) as caught:
        merge_shards(shards, tmp_path / "merged.jsonl")
    assert "equal tasks their repeats" in (caught.value.failure.remedy or "")
    merged = merge_shards(shards, tmp_path / "merged.jsonl", renumber=True)
    assert identities(read_rows(merged.files.rows)) == [(0, 0), (0, 1)]
    assert identities(read_rows(merged.files.failures)) == [(1, 0), (1, 1)]


def test_failures_among_the_rows_count_once(tmp_path: Path) -> None:
    broken = {**scored_row(1), "_ng_failure_class": "boom", "_ng_outcome": "failed", "_ng_attempt_index": 0}
    failures = [failure_row(1, kind="boom"), failure_row(2)]
    shard = store(
        tmp_path / "one.jsonl", [scored_row(0), broken, {**scored_row(3), "reward": None}], failures
    )
    merged = merge_shards([shard], tmp_path / "merged.jsonl")
    assert (merged.rows, merged.scored, merged.failures) == (3, 1, 3)
    assert merged.results["simple_agent"]["agent_metrics"]["count/outcome/failed"] == 3


def test_rows_without_indices_get_those_of_the_merged_run(tmp_path: Path) -> None:
    rows = [orjson.dumps({"responses_create_params": {"input": ask}, "reward": 1.0}) for ask in "aba"]
    shard = tmp_path / "one.jsonl"
    shard.write_bytes(b"\xef\xbb\xbf" + b"\n".join(rows) + b"\n")
    merged = merge_shards([shard], tmp_path / "merged.jsonl")
    assert identities(read_rows(merged.files.rows)) == [(0, 0), (0, 1), (1, 0)]


def test_rows_of_shards_with_other_code_are_marked(tmp_path: Path) -> None:
    shards = []
    for number in range(2):
        shards.append(store(tmp_path / f"{number}.jsonl", [scored_row(number, reward=number)]))
        document = {"schema_version": 1, "identity": {"code": {"commit": number}}, "starts": [{"planned": 9}]}
        (tmp_path / f"{number}_run.json").write_bytes(orjson.dumps(document))
    merged = merge_shards(shards, tmp_path / "merged.jsonl")
    one, two = (row["_ng_scored_by"] for row in read_rows(merged.files.rows))
    assert one != two
    assert f"2 codes scored the rows of the runs; {one}: 1 rows, mean 0.0000; {two}" in merged.notes[-1]
    assert "1 of 9 planned rollouts; the run has not ended" in merged.notes[0]


def store_with_identity(path: Path, task: int, **start: Any) -> Path:
    """A shard of one task whose temperature is its number, and which planned two rollouts."""
    sampling = {"responses_create_params": {"temperature": float(task)}}
    document = {"schema_version": 1, "identity": sampling, "starts": [{"planned": 2, **start}]}
    path.with_name(f"{path.stem}_run.json").write_bytes(orjson.dumps(document))
    return store(path, [scored_row(task)])


def test_shards_with_other_settings_are_refused_with_every_value(tmp_path: Path) -> None:
    shards = [store_with_identity(tmp_path / f"{number}.jsonl", number) for number in range(2)]
    with pytest.raises(ConfigError, match="different settings") as caught:
        merge_shards(shards, tmp_path / "merged.jsonl")
    told = f"responses_create_params.temperature: 0.0 in {shards[0]}, 1.0 in {shards[1]}"
    assert told in str(caught.value)
    assert not contents(tmp_path, "merged")
    merged = merge_shards(shards, tmp_path / "merged.jsonl", allow_identity_change=True)
    assert (merged.rows, merged.notes[0]) == (2, told)
    assert told in "".join(RunAccount.open(merged.files).notes())


def test_a_merged_run_keeps_what_its_shards_lack(tmp_path: Path) -> None:
    shard = store_with_identity(tmp_path / "shard.jsonl", 0)
    merged = merge_shards([shard], tmp_path / "merged.jsonl").files
    again = merge_shards([merged.rows], tmp_path / "again.jsonl").files
    other = store_with_identity(tmp_path / "other.jsonl", 0)
    told = "1 of 2 planned rollouts; the run has not ended"
    for notes in (read_run_table([other, again.rows]).runs[1].account.notes(), rank_notes(other, again.rows)):
        assert (
            f"{again.rows}: merged from shards; {merged.rows}: merged from shards; {shard}: {told}"
            in "".join(notes)
        )
    whole = {
        "planned": 1,
        "end": "complete",
        "counts": {"finished_before": 0, "completed": 1, "truncated": 0},
    }
    store_with_identity(shard, 0, **whole)
    merged = merge_shards([shard], merged.rows, overwrite=True).files
    assert RunAccount.open(merged).progress.shards == ()


def test_a_merged_run_is_known_by_its_shards(tmp_path: Path) -> None:
    paths = store_models(tmp_path, {"small": 0.5}, tasks=3, repeats=2)
    manifest = orjson.loads((tmp_path / "small_run.json").read_bytes())
    manifest["identity"] |= {"responses_create_params": {"temperature": 0.5}, "datasets": [{"path": "a"}]}
    start = {"started_at": "2026-01-02T00:00:00+00:00", "planned": 6, "end": "complete"}
    start |= {"counts": {"planned": 6, "finished_before": 0, "completed": 6, "truncated": 0, "failed": 0}}
    for name, day, tag in (("small", 2, "a"), ("more", 1, "b")):
        own = start | {"started_at": f"2026-01-0{day}T00:00:00+00:00", "settings": {"tags": [tag]}}
        (tmp_path / f"{name}_run.json").write_bytes(orjson.dumps(manifest | {"starts": [own]}))
    more = tmp_path / "more.jsonl"
    more.write_bytes(paths[0].read_bytes())
    (tmp_path / "more_materialized_inputs.jsonl").write_bytes(
        (tmp_path / "small_materialized_inputs.jsonl").read_bytes()
    )
    merged = merge_shards([*paths, more], tmp_path / "merged.jsonl", renumber=True).files
    again = merge_shards([merged.rows], tmp_path / "again.jsonl").files
    assert not merged.manifest.exists(), "a resume must not take it for its own"
    for files in (merged, again):
        (run,) = read_run_table([files.rows]).runs
        assert (run.label, run.started_at) == ("org/small", "2026-01-01T00:00:00+00:00")
        assert (run.facts.sampling, run.facts.tags) == ({"temperature": 0.5}, ("a", "b"))
        (shown,) = find_runs([files.rows])
        assert (shown.state(), shown.summary()["models"]) == (RunState.COMPLETE, ["org/small"])
    (tmp_path / "merged_shards.json").write_bytes(b'{"notes": ["of an earlier version"]}')
    (shown,) = find_runs([merged.rows])
    assert (shown.state(), shown.summary()["problems"]) == (RunState.UNKNOWN, [])


def rank_notes(*paths: Path) -> list[str]:
    return rank_runs(list(paths)).notes


def test_an_earlier_run_in_the_output_is_not_touched_unasked(tmp_path: Path) -> None:
    shard = store_shard(tmp_path / "shard.jsonl", [scored_row(0)])
    merge_shards([shard], tmp_path / "merged.jsonl")
    with pytest.raises(ConfigError, match="belongs to an earlier run"):
        merge_shards([shard], tmp_path / "merged.jsonl")


def test_a_merged_run_is_not_taken_for_the_one_that_it_replaces(tmp_path: Path) -> None:
    files = RunFiles.from_output(tmp_path / "merged.jsonl")
    identity: dict[str, Any] = {"datasets": [], "config": {}}
    replaced = open_journal(files, identity, {}, is_planned=all_planned)
    replaced.add_row(orjson.dumps(scored_row(5)))
    replaced.close({})
    merge_shards([store_shard(tmp_path / "shard.jsonl", [scored_row(0)])], files.rows, overwrite=True)
    with pytest.raises(ConfigError, match="has no manifest"):
        open_journal(files, identity, {}, existing=Existing.RESUME, is_planned=all_planned)


def test_runs_may_be_named_after_the_one_that_they_become(tmp_path: Path) -> None:
    shards = [store_shard(tmp_path / f"run_shard_{number}.jsonl", [scored_row(number)]) for number in (0, 1)]
    assert merge_shards(shards, tmp_path / "run.jsonl").rows == 2
    assert all(shard.exists() for shard in shards)


@pytest.mark.parametrize("damaged", ["part.jsonl", "part_failures.jsonl"])
def test_a_damaged_row_is_refused_by_its_rollout_and_nothing_is_written(tmp_path: Path, damaged: str) -> None:
    shard = store_shard(tmp_path / "part.jsonl", [scored_row(0), failure_row(1)])
    merged = merge_shards([shard], tmp_path / "all.jsonl")
    before = contents(tmp_path, "all")
    with (tmp_path / damaged).open("ab") as file:
        file.write(RolloutId(7, 2).head() + b'"reward":1.0,"resp{}\n')
    with pytest.raises(ConfigError, match=r"task 7, repeat 2 for .*: the row is not JSON"):
        merge_shards([shard], merged.files.rows, overwrite=True)
    assert contents(tmp_path, "all") == before


@pytest.mark.parametrize("renumber", [True, False])
def test_a_shard_that_was_cut_off_is_refused_by_its_name(tmp_path: Path, renumber: bool) -> None:
    shard = tmp_path / "part.jsonl.zst"
    with replacing(shard) as file:
        file.write(b"".join(orjson.dumps(scored_row(task)) + b"\n" for task in range(50)))
    os.truncate(shard, shard.stat().st_size - 20)
    with pytest.raises(ConfigError, match=r"part\.jsonl\.zst is damaged"):
        merge_shards([shard], tmp_path / "all.jsonl", renumber=renumber)


def test_failed_and_missing_rollouts_count_as_zero_when_asked(tmp_path: Path) -> None:
    failed = [failure_row(0, 0, agent="one"), failure_row(1, 0, agent="one")]
    rows = [scored_row(0, 0, agent="one"), *failed]  # a later start has scored task 0
    shard = store_shard(tmp_path / "shard.jsonl", rows)
    inputs = [scored_row(task, 0, agent="one") for task in range(3)]
    for row in inputs:
        del row["reward"]
    lines = b"".join(orjson.dumps(row) + b"\n" for row in inputs)
    shard.with_name("shard_materialized_inputs.jsonl").write_bytes(lines)
    options: dict[str, Any] = {
        "zero_classes": [failed[0]["_ng_failure_class"]],
        "counts_missing_as_zero": True,
    }
    merged = merge_shards([shard], tmp_path / "merged.jsonl", **options)
    metrics = merged.results["one"]["agent_metrics"]
    assert (metrics["count/scored"], metrics["count/imputed"]) == (3, 2)
    assert metrics["mean/reward"] == pytest.approx(rows[0]["reward"] / 3)
    assert len(read_rows(merged.files.rows)) == 1


def test_blank_lines_of_shards_are_skipped(tmp_path: Path) -> None:
    shard = store_shard(tmp_path / "shard.jsonl", rollouts())
    merged = merge_shards([shard], tmp_path / "a.jsonl")
    shard.write_bytes(b"\n" + shard.read_bytes().replace(b"\n", b"\n \n"))
    again = merge_shards([shard], tmp_path / "b.jsonl")
    assert again.files.rows.read_bytes() == merged.files.rows.read_bytes()
