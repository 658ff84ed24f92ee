"""Tasks that several runs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.export._shared_tasks import SharedTasks
from nemo_gym.failures import ConfigError


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
