from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import zstandard

from nemo_gym.export.report import LeftOut, Report
from nemo_gym.export.rollouts import Group, RolloutFiles, SharedTasks
from nemo_gym.failures import ConfigError
from tests.export.rows import exported, failed, row, write


def groups_of(*paths: Path) -> tuple[list[Group], Report]:
    report = Report()
    return list(RolloutFiles(paths).groups(report)), report


def test_rows_are_grouped_by_task_whatever_their_order(tmp_path: Path) -> None:
    rows = [row(task, repeat) for task in range(5) for repeat in range(4)]
    Random(1).shuffle(rows)
    groups, report = groups_of(write(tmp_path / "in.jsonl", rows))
    assert report.read == 20
    assert {group.task: [member.repeat for member in group.members] for group in groups} == {
        str(task): [0, 1, 2, 3] for task in range(5)
    }


def test_a_group_is_yielded_with_its_last_row_so_that_memory_is_bounded(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [row(0, 0), row(1, 0), row(0, 1), row(1, 1)])
    report = Report()
    groups = RolloutFiles([path]).groups(report)
    assert next(groups).task == "0"
    assert report.read == 3


def test_a_failure_is_in_no_baseline(tmp_path: Path) -> None:
    rows = [row(0, 0, 1.0), row(0, 1, 3.0), row(0, 2, 2.0), failed(0, 3), {**row(0, 4), "reward": None}]
    (group,), report = groups_of(write(tmp_path / "in.jsonl", rows))
    assert (group.mean, group.deviation) == (2.0, 1.0)
    assert report.left_out == {LeftOut.FAILED: 1, LeftOut.UNSCORED: 1}
    assert report.examples[LeftOut.FAILED] == f"{tmp_path}/in.jsonl:4"


@pytest.mark.parametrize("key", ["_ng_masked", "mask_sample"])
def test_masked_rollouts_are_in_no_group(key: str, tmp_path: Path) -> None:
    rows = [row(0, 0, 1.0), row(0, 1, 9.0) | {key: True}, row(0, 2, 3.0) | {key: False}]
    (group,), report = groups_of(write(tmp_path / "in.jsonl", rows))
    assert (group.mean, [member.repeat for member in group.members]) == (2.0, [0, 2])
    assert report.left_out == {LeftOut.MASKED: 1}


def test_a_task_whose_attempts_all_failed_is_no_group(tmp_path: Path) -> None:
    groups, report = groups_of(write(tmp_path / "in.jsonl", [failed(0, 0), failed(0, 1)]))
    assert groups == []
    assert report.left_out[LeftOut.FAILED] == 2


def test_the_same_number_in_two_files_is_two_tasks(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [row(0, 0), row(0, 1)])
    second = write(tmp_path / "b.jsonl", [row(0, 0)])
    groups, _ = groups_of(first, second)
    assert [(group.task, len(group.members)) for group in groups] == [("0:0", 2), ("1:0", 1)]


def test_a_file_named_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row()])
    with pytest.raises(ConfigError, match="twice"):
        RolloutFiles([path, path])


def test_rows_without_numbers_are_grouped_by_their_prompt(tmp_path: Path) -> None:
    rows = [row(task, repeat) for repeat in range(2) for task in range(2)]
    for each in rows:
        del each["_ng_task_index"], each["_ng_rollout_index"]
    groups, _ = groups_of(write(tmp_path / "in.jsonl", rows))
    assert [len(group.members) for group in groups] == [2, 2]


@pytest.mark.parametrize("index", [True, 1.0, "1"])
def test_an_index_that_is_no_integer_is_refused_with_its_line(index: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"in\.jsonl:2: the row has `_ng_task_index`"):
        groups_of(write(tmp_path / "in.jsonl", [row(0), row(1, _ng_task_index=index)]))


def test_a_byte_order_mark_belongs_to_no_row(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [row(0, 0), row(0, 1)])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    (group,), _ = groups_of(path)
    assert len(group.members) == 2


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_compressed_files_are_read_and_a_torn_end_is_counted(ending: str, tmp_path: Path) -> None:
    whole = orjson.dumps(row(0, 0)) + b"\n"
    torn = whole + orjson.dumps(row(0, 1))[:-10]
    packed = {
        ".jsonl": torn,
        ".jsonl.gz": gzip.compress(torn),
        ".jsonl.zst": zstandard.compress(torn),
    }[ending]
    path = tmp_path / f"in{ending}"
    path.write_bytes(packed)
    (group,), report = groups_of(path)
    assert len(group.members) == 1
    assert report.read == 2
    assert report.left_out == {LeftOut.UNREADABLE: 1}


def test_a_last_row_without_a_line_break_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(orjson.dumps(row(0, 0)))
    (group,), _ = groups_of(tmp_path / "in.jsonl")
    assert len(group.members) == 1


@pytest.mark.parametrize("line", [b"not JSON\n", b"[1]\n"])
def test_a_file_of_something_else_is_refused_with_its_line(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(orjson.dumps(row()) + b"\n" + line)
    with pytest.raises(ConfigError, match=r"in\.jsonl:2"):
        groups_of(tmp_path / "in.jsonl")


def variants() -> Iterator[tuple[dict[str, Any], bool]]:
    """Rows, and whether their prompt equals that of `row(0)`."""
    same, seeded = row(0), row(0)
    seeded["responses_create_params"]["metadata"] = {"extra_body": '{"seed": 7}'}
    seeded["responses_create_params"]["temperature"] = 0.5
    yield same, True
    yield seeded, True
    yield row(1), False
    yield row(0, tools=[{"type": "function", "name": "f"}]), False


@pytest.mark.parametrize(("other", "is_same"), list(variants()))
def test_the_prompt_fingerprint_covers_instructions_input_and_tools(
    other: dict[str, Any], is_same: bool, tmp_path: Path
) -> None:
    (first,), _ = groups_of(write(tmp_path / "a.jsonl", [row(0)]))
    (second,), _ = groups_of(write(tmp_path / "b.jsonl", [other]))
    assert (first.fingerprint == second.fingerprint) is is_same


@pytest.mark.parametrize("format_name", ["sft", "kto", "dpo", "grpo", "openai", "sharegpt"])
@pytest.mark.parametrize("reward", [1.0, 0.0])
def test_a_rollout_with_two_scored_rows_is_refused_with_its_line(
    format_name: str, reward: float, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl:3: duplicate row of task 0, repeat 1"):
        exported(tmp_path, format_name, [row(0, 0), row(0, 1), row(0, 1, reward)])


def test_a_failed_row_beside_the_score_of_its_rollout_is_no_second_row(tmp_path: Path) -> None:
    attempt = {"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_failure_class": "x", "_ng_outcome": "failed"}
    _, report = exported(tmp_path, "openai", [attempt, row(0, 0)])
    assert report.exported == 1


def test_equal_indices_in_two_files_are_two_rollouts(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, [row(0, 0)]) for name in ("a.jsonl", "b.jsonl")]
    groups = list(RolloutFiles(paths).groups(Report()))
    assert [len(group.members) for group in groups] == [1, 1]


# --- Tasks that several runs share ------------------------------------------------------------------------------------


def run(path: Path, *tasks: dict[str, Any], repeats: int = 1) -> Path:
    """The task rows of a run whose rows are at `path`."""
    sent = [
        {"_ng_task_index": number, "_ng_rollout_index": repeat, **task}
        for number, task in enumerate(tasks)
        for repeat in range(repeats)
    ]
    text = b"".join(orjson.dumps(each) + b"\n" for each in sent)
    path.with_name(f"{path.stem}_materialized_inputs.jsonl").write_bytes(text)
    return path


def task(question: str, answer: str = "4", **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": question}, "expected_answer": answer, **fields}


def test_tasks_of_equal_content_have_one_key_in_any_order_by_any_agent(tmp_path: Path) -> None:
    other = {**task("b"), "agent_ref": {"name": "another"}}
    other["responses_create_params"]["temperature"] = 0.5
    first = run(tmp_path / "a.jsonl", task("a"), task("b"), repeats=2)
    second = run(tmp_path / "b.jsonl", other, task("a"))
    shared = SharedTasks([first, second])
    assert shared.key(first, "0", 1) == shared.key(second, "1", 1)
    assert shared.key(first, "1", 1) == shared.key(second, "0", 1)
    assert shared.key(first, "0", 1) != shared.key(first, "1", 1)


def test_another_expected_answer_is_another_task(tmp_path: Path) -> None:
    first = run(tmp_path / "a.jsonl", task("a", "4"))
    second = run(tmp_path / "b.jsonl", task("a", "5"))
    shared = SharedTasks([first, second])
    assert shared.key(first, "0", 1) != shared.key(second, "0", 1)


def test_equal_tasks_of_one_run_stay_apart(tmp_path: Path) -> None:
    first = run(tmp_path / "a.jsonl", task("a"), task("a"))
    second = run(tmp_path / "b.jsonl", task("a"))
    shared = SharedTasks([first, second])
    assert shared.key(first, "0", 1) == shared.key(second, "0", 1) != shared.key(first, "1", 1)


def test_a_run_without_its_task_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no task rows beside it") as caught:
        SharedTasks([tmp_path / "a.jsonl"])
    assert "a_materialized_inputs.jsonl" in str(caught.value)


def test_a_row_of_no_task_is_refused_with_its_line(tmp_path: Path) -> None:
    shared = SharedTasks([run(tmp_path / "a.jsonl", task("a"))])
    with pytest.raises(ConfigError, match=r"a\.jsonl:7: its task is not in"):
        shared.key(tmp_path / "a.jsonl", "3", 7)


def test_a_task_row_without_a_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a_materialized_inputs.jsonl").write_text('{"question": "a"}\n')
    with pytest.raises(ConfigError, match=r"inputs\.jsonl:1: the task row has no `_ng_task_index`"):
        SharedTasks([tmp_path / "a.jsonl"])
