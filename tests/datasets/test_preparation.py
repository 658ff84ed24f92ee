from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.datasets.preparation import Preparation, prompt_digest
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.equal_tasks import row_digest
from nemo_gym.rollouts.plan.task_rows import Task
from nemo_gym.rows.forms import TaskRow
from tests.datasets.rows import read, row, source, write

SHARED = PARENT_DIR.parent / "shared" / "data" / "environment_examples"


def test_malformed_rows_are_reported_together_by_file_line_and_field(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", row("a"), b"{not json", {"question": "b"})
    two = write(
        tmp_path / "two.jsonl",
        {"responses_create_params": {"input": "a", "temperatur": 1}},
        {"responses_create_params": {"input": [{"role": "user", "content": 7}]}, "agent_ref": {"name": ""}},
        row("b"),
    )
    preparation = Preparation([source(one), source(two)])
    report = preparation.inspect()
    assert [file.statistics.rows for file in report.files] == [1, 1]
    assert [file.invalid for file in report.files] == [2, 2]
    with pytest.raises(ConfigError) as caught:
        report.refuse_faults()
    message = caught.value.failure.message
    assert message.startswith("4 of 6 rows malformed:")
    assert f"{one}:2: is not JSON" in message
    assert f"{one}:3: `responses_create_params` is missing" in message
    assert f"{two}:1: `responses_create_params.temperatur` Extra inputs are not permitted" in message
    assert f"{two}:2: `agent_ref.name` must be the name of an agent" in message
    assert "+skip_invalid_rows=true" in (caught.value.failure.remedy or "")


def test_rows_are_put_together_by_split_with_their_agent_and_their_repeats(tmp_path: Path) -> None:
    first = write(tmp_path / "first.jsonl", row("a"), b"", row("b", agent_ref={"name": "another"}))
    second = write(tmp_path / "second.jsonl", row("c"))
    held_out = tmp_path / "held_out.jsonl.gz"
    held_out.write_bytes(gzip.compress(orjson.dumps(row("d"))))
    preparation = Preparation(
        [source(first, num_repeats=2), source(second, agent_name="other"), source(held_out, "validation")]
    )
    report = preparation.inspect()
    report.refuse_faults()
    preparation.write(tmp_path / "out")
    rows = read(tmp_path / "out" / "train.jsonl")
    asked = [
        (one["responses_create_params"]["input"][0]["content"], one["agent_ref"]["name"]) for one in rows
    ]
    assert asked == [("a", "agent"), ("a", "agent"), ("b", "another"), ("b", "another"), ("c", "other")]
    assert len(read(tmp_path / "out" / "validation.jsonl")) == 1
    metrics = orjson.loads((tmp_path / "out" / "train_metrics.json").read_bytes())
    assert metrics["rows"] == 3, "of both files: the second does not take the first one's place"
    assert metrics["agents"] == {"agent": 1, "another": 1, "other": 1}
    assert {path.name: rows for path, rows in report.written.items()} == {
        "train.jsonl": 5,
        "validation.jsonl": 1,
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "train.jsonl",
        "train_metrics.json",
        "validation.jsonl",
        "validation_metrics.json",
    ]


def test_malformed_rows_may_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "tasks.jsonl", row("a"), {"x": 1}, row("b"))
    preparation = Preparation([source(path)])
    assert preparation.inspect().invalid == 1
    preparation.write(tmp_path / "out")
    assert len(read(tmp_path / "out" / "train.jsonl")) == 2


def test_duplicates_are_found_by_content_ids_aside(tmp_path: Path) -> None:
    path = write(
        tmp_path / "tasks.jsonl",
        row("a", answer=1, uuid="1"),
        row("a", answer=1, uuid="2"),
        row("a", answer=2),
    )
    again = write(tmp_path / "again.jsonl", {"answer": 1, **row("a")})
    held_out = write(tmp_path / "held_out.jsonl", row("z", answer=1))
    preparation = Preparation([source(path), source(again), source(held_out, "validation")])
    report = preparation.inspect()
    assert [(report.where(one.place), report.where(one.first)) for one in report.duplicates] == [
        (f"{path}:2", f"{path}:1"),
        (f"{again}:1", f"{path}:1"),
    ]
    assert report.leaks == []
    preparation.write(tmp_path / "out", without_repetitions=True)
    assert [one["answer"] for one in read(tmp_path / "out" / "train.jsonl")] == [1, 2]


def test_a_train_row_with_a_validation_prompt_is_a_leak_in_any_spelling(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", row("What is  2+2?", level=3), row("What is 3+3?"))
    held_out = write(tmp_path / "held_out.jsonl", row("what is 2+2? ", answer=4), row("What is 5+5?"))
    preparation = Preparation([source(train), source(held_out, "benchmark")])
    report = preparation.inspect()
    assert [(report.where(one.place), report.where(one.first)) for one in report.leaks] == [
        (f"{train}:1", f"{held_out}:1")
    ]
    preparation.write(tmp_path / "out", without_repetitions=True)
    assert [
        one["responses_create_params"]["input"][0]["content"]
        for one in read(tmp_path / "out" / "train.jsonl")
    ] == ["What is 3+3?"]
    assert len(read(tmp_path / "out" / "benchmark.jsonl")) == 2


def test_a_prompt_that_many_tasks_share_is_no_leak_but_the_same_task_is(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", *(row("Play.", seed=seed) for seed in (1, 2, 3)))
    held_out = write(tmp_path / "held_out.jsonl", *(row("Play.", seed=seed) for seed in (3, 4)))
    report = Preparation([source(train), source(held_out, "validation")]).inspect()
    assert [report.where(one.place) for one in report.leaks] == [f"{train}:3"]


def test_rows_are_filled_into_their_prompt(tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.yaml"
    prompt.write_text("user: 'Solve: {question}'")
    path = write(tmp_path / "tasks.jsonl", {"question": "2+2"})
    preparation = Preparation([source(path, prompt_config=prompt)])
    preparation.inspect().refuse_faults()
    preparation.write(tmp_path / "out")
    (filled,) = read(tmp_path / "out" / "train.jsonl")
    assert filled["responses_create_params"]["input"] == [{"role": "user", "content": "Solve: 2+2"}]


def test_an_output_that_cannot_be_written_leaves_nothing_half_done(tmp_path: Path) -> None:
    path = write(tmp_path / "tasks.jsonl", row("a"))
    (tmp_path / "out").write_text("a file, not a folder")
    preparation = Preparation([source(path)])
    preparation.inspect()
    with pytest.raises(ConfigError, match="cannot write"):
        preparation.write(tmp_path / "out")


@pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs ../shared/data/environment_examples beside the repository"
)
def test_the_rows_of_a_hundred_public_environments_load(tmp_path: Path) -> None:
    files = sorted(SHARED.glob("*.jsonl"))
    preparation = Preparation([source(path, "example", agent_name=path.stem) for path in files])
    report = preparation.inspect()
    report.refuse_faults()
    preparation.write(tmp_path)
    lines = sum(1 for path in files for line in path.read_bytes().splitlines() if line.strip())
    assert report.rows == report.written[tmp_path / "example.jsonl"] == lines >= 500
    assert report.merge_statistics("example").agents.keys() >= {"workplace_assistant", "code_gen", "ifbench"}


# --- Duplicate rows and leakage ---------------------------------------------------------------------------------------


def task(asked: Any, tools: Any = None, **fields: Any) -> Task:
    row = {"responses_create_params": {"input": asked, "tools": tools}, **fields}
    return Task("agent", TaskRow(row), orjson.dumps(row))


def message(text: str, *parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "input_text", "text": text}, *parts] if parts else text}]


def test_a_text_and_a_message_ask_the_same_spaces_and_case_aside() -> None:
    assert prompt_digest(task("What is this?")) == prompt_digest(task(message(" what  is\nthis? ")))
    assert prompt_digest(task("What is this?")) != prompt_digest(task("What was this?"))


def test_roles_images_and_tools_are_part_of_the_prompt() -> None:
    image = {"type": "input_image", "image_url": "a"}
    other = {"type": "input_image", "image_url": "b"}
    digests = [
        prompt_digest(task(message("x"))),
        prompt_digest(task([{"role": "system", "content": "x"}])),
        prompt_digest(task(message("x", image))),
        prompt_digest(task(message("x", other))),
        prompt_digest(task(message("x"), [{"name": "look"}])),
    ]
    assert len(set(digests)) == len(digests)


def test_a_row_is_the_same_whatever_its_ids_and_the_order_of_its_keys() -> None:
    one = task("x", answer=1, id=1, uuid="a", agent_ref={"name": "a"}, _ng_task_index=4)
    row = {"answer": 1, **task("x", id=2).row}
    assert row_digest(one) == row_digest(Task("agent", TaskRow(row), b""))
    assert row_digest(one) != row_digest(task("x", answer=2))
    assert row_digest(one) != row_digest(Task("another agent", TaskRow(row), b""))
