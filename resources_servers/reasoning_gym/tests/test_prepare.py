"""Generated rows are reproducible, complete, and use the given options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.failures import InputError
from resources_servers.reasoning_gym.prepare import generate_rows, main


def test_a_seed_makes_the_same_rows_again_and_another_other_ones(tmp_path: Path) -> None:
    def written(seed: int) -> str:
        output = tmp_path / f"{seed}.jsonl"
        main(["--task", "chain_sum", "gcd", "--size", "3", "--seed", str(seed), "--output", str(output)])
        return output.read_text()

    first = written(1)
    assert first == written(1)
    assert first != written(2)
    rows = [json.loads(line) for line in first.splitlines()]
    assert [row["metadata"]["source_dataset"] for row in rows] == ["chain_sum"] * 3 + ["gcd"] * 3
    assert rows[0]["responses_create_params"]["input"][1] == {"role": "user", "content": rows[0]["question"]}


def test_options_of_the_dataset_are_obeyed_and_kept_in_the_row() -> None:
    (row,) = generate_rows(
        "chain_sum", size=1, seed=0, config={"min_terms": 9, "max_terms": 9}, system_prompt=""
    )
    assert row["metadata"]["num_terms"] == 9
    assert row["dataset_config"] == {"min_terms": 9, "max_terms": 9}
    assert [message["role"] for message in row["responses_create_params"]["input"]] == ["user"]


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(InputError, match="no dataset 'no_such_task'"):
        next(generate_rows("no_such_task", size=1, seed=0, config={}))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--task", "gcd"],
        ["--task", "all", "--config", '{"a": 1}', "--output", "x"],
        ["--task", "gcd", "--config", "[1]", "--output", "x"],
    ],
)
def test_bad_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_the_tasks_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--list"])
    assert "knights_knaves" in capsys.readouterr().out.split()
