"""The scores of stored runs, by model, environment and task."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.score_tables import label_runs, read_scores, read_tables, split_by_agent
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import scored_row, store


def test_a_run_has_the_model_of_its_manifest(tmp_path: Path) -> None:
    (path,) = store_models(tmp_path, {"small": 1.0}, tasks=3, repeats=2)
    table = read_scores(path)
    assert (table.label, table.rollouts, table.output_tokens) == ("org/small", 6, 3 * (10 + 20))
    assert table.identity is not None
    assert len(table.identity) == 12
    (tasks,) = table.environments.values()
    assert [task.scores for task in tasks.values()] == [[1.0, 1.0]] * 3


def test_runs_of_one_model_are_told_apart(tmp_path: Path) -> None:
    one = store(tmp_path / "one.jsonl", [scored_row(0)])
    (tmp_path / "other").mkdir()
    other = store(tmp_path / "other" / "one.jsonl", [scored_row(0)])
    assert [table.label for table in read_tables([one, other])] == [
        f"{tmp_path.name}/one",
        "other/one",
    ]


def test_the_name_of_a_file_keeps_its_dots(tmp_path: Path) -> None:
    names = ("temp_0.jsonl", "temp_0.3.jsonl", "temp_0.9.jsonl.zst", "temp_0.9.jsonl")
    labels = label_runs(["org/small", "org/small", "org/small", "large"], [tmp_path / name for name in names])
    assert labels == ["org/small (temp_0)", "org/small (temp_0.3)", "org/small (temp_0.9)", "large"]


def test_files_of_one_name_have_the_folders_that_tell_them_apart() -> None:
    paths = [Path("/a/x/rows.jsonl"), Path("/b/x/rows.jsonl"), Path("/b/y/rows.jsonl")]
    assert label_runs(["m"] * 3, paths) == ["m (a/x/rows)", "m (b/x/rows)", "m (b/y/rows)"]
    assert label_runs(["m"] * 2, paths[1:]) == ["m (x/rows)", "m (y/rows)"]
    forms = [Path("a.jsonl"), Path("a.jsonl.gz")]
    assert label_runs(["m"] * 2, forms) == ["m (a.jsonl)", "m (a.jsonl.gz)"]


def test_agents_of_one_run_can_be_models(tmp_path: Path) -> None:
    path = store(tmp_path / "out.jsonl", [scored_row(0, agent="a"), scored_row(0, 1, 0.0, agent="b")])
    assert [table.label for table in split_by_agent(read_scores(path), "quiz")] == ["a", "b"]


def test_a_run_without_the_score_is_refused(tmp_path: Path) -> None:
    path = store(tmp_path / "out.jsonl", [scored_row(0)])
    with pytest.raises(ConfigError, match="has the score 'style'"):
        read_scores(path, "style")


def test_rows_of_another_program_are_numbered(tmp_path: Path) -> None:
    rows = [
        {"responses_create_params": {"input": f"q {n}"}, "response": {}, "reward": n / 2} for n in range(3)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (tasks,) = read_scores(path).environments.values()
    assert [task.scores for task in tasks.values()] == [[0.0], [0.5], [1.0]]
