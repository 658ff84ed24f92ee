from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.export.formats import NAMES, find_format
from nemo_gym.export.report import LeftOut
from nemo_gym.failures import ConfigError
from nemo_gym.rows.identity import RolloutId
from tests.export.rows import call, exported, output, read, row, text, write


def test_duplicate_rows_are_written_once_by_default(tmp_path: Path) -> None:
    rows = [row(0, n, items=[call("Oslo", f"c{n}"), output("x", f"c{n}"), text("same")]) for n in range(3)]
    written, report = exported(tmp_path, "sft", rows)
    assert (len(written), report.duplicates, report.exported) == (1, 2, 3)
    written, report = exported(tmp_path, "sft", rows, merge_equal_rows=False)
    assert (len(written), report.duplicates) == (3, 0)


def test_rows_of_a_group_are_never_merged(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="deduplicate"):
        exported(tmp_path, "grpo", [row()], merge_equal_rows=True)


def test_all_wrong_options_are_reported_with_the_valid_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        exported(tmp_path, "dpo", [row()], options={"pairs": "some", "marginn": 1})
    assert len(caught.value.problems) == 2
    assert "margin" in str(caught.value.problems[0].remedy)


def test_existing_files_are_replaced_only_with_overwrite_and_never_by_a_failed_export(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [row()])
    output = tmp_path / "out.jsonl"
    output.write_text("mine")
    with pytest.raises(ConfigError, match="the output exists"):
        export(ExportSettings(format="sft", inputs=[path], output=output))
    whole = path.read_bytes()
    for damage in (b"damaged\n", RolloutId(1, 0).head() + b'"reward":1.0,"resp{}\n'):
        path.write_bytes(whole + damage)
        with pytest.raises(ConfigError, match=r"in\.jsonl:2: the row is not JSON"):
            export(ExportSettings(format="sft", inputs=[path], output=output, overwrite=True))
    assert output.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_argument_objects_in_parquet_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Parquet"):
        exported(tmp_path, "sft", [row()], name="out.parquet")
    written, _ = exported(tmp_path, "sft", [row()], name="out.parquet", options={"arguments": "string"})
    assert written[0]["messages"][1]["content"] == "answer 0/0"


@pytest.mark.parametrize("format_name", NAMES)
def test_every_format_says_that_a_run_was_killed_and_that_two_codes_scored_it(
    tmp_path: Path, format_name: str
) -> None:
    document = {"schema_version": 1, "identity": {}, "starts": [{"planned": 9}]}
    (tmp_path / "rollouts_run.json").write_bytes(orjson.dumps(document))
    name = f"out{find_format(format_name).endings[0]}"
    _, report = exported(tmp_path, format_name, [row(0, 0), row(0, 1, _ng_scored_by="x")], name=name)
    unfinished, codes = [line for line in report.lines() if line.startswith("note: ")]
    assert "2 of 9 planned rollouts; the run has not ended" in unfinished
    assert "2 codes scored the rows" in codes
    (run,) = report.to_json()["runs"]
    assert (run["rows"], run["planned"], run["state"]) == (2, 9, "stopped")


# --- Splits -----------------------------------------------------------------------------------------------------------


def test_splits_keep_tasks_together_and_depend_on_the_prompt_alone(tmp_path: Path) -> None:
    rows = [row(task, repeat) for task in range(200) for repeat in range(2)]
    shares = {"train": 0.8, "test": 0.2}

    def split(given: list[dict[str, Any]], name: str) -> dict[str, set[str]]:
        path = write(tmp_path / f"{name}.jsonl", given)
        export(
            ExportSettings(format="sft", inputs=[path], output=tmp_path / f"{name}_out.jsonl", splits=shares)
        )
        return {
            part: {each["messages"][0]["content"] for each in read(tmp_path / f"{name}_out_{part}.jsonl")}
            for part in shares
        }

    whole = split(rows, "whole")
    assert not whole["train"] & whole["test"]
    assert len(whole["train"] | whole["test"]) == 200
    assert 20 <= len(whole["test"]) <= 60
    some = [{**each, "_ng_task_index": 1000 - each["_ng_task_index"]} for each in rows[100:]]
    part = split(some, "part")
    assert part["train"] <= whole["train"]
    assert part["test"] <= whole["test"]


def test_tasks_with_equal_prompts_can_be_split_by_their_number(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [row(task, prompt="Play.") for task in range(50)])
    settings: dict[str, Any] = {"splits": {"a": 0.5, "b": 0.5}, "merge_equal_rows": False, "overwrite": True}
    for by, several in (("prompt", False), ("task", True)):
        report = export(
            ExportSettings(
                format="sft", inputs=[path], output=tmp_path / "out.jsonl", split_by=by, **settings
            )
        )
        assert (min(report.rows.values()) > 0) is several


@pytest.mark.parametrize("shares", [{"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": float("nan")}])
def test_shares_that_do_not_add_up_to_one_are_refused(shares: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="add up to 1"):
        exported(tmp_path, "sft", [row()], splits=shares)


@pytest.mark.parametrize("name", ["a/b", "", "a b"])
def test_split_names_that_are_invalid_in_file_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="become parts of file names"):
        exported(tmp_path, "sft", [row()], splits={name: 1.0})


# --- Filters ----------------------------------------------------------------------------------------------------------


def test_each_filter_leaves_out_for_its_reason(tmp_path: Path) -> None:
    rows = [
        row(0, 0, 1.0),
        row(1, 0, 0.2),
        row(2, 0, 1.0, tokens=500),
        row(3, 0, 1.0, tokens=None),
        row(4, 0, 1.0, agent_ref={"type": "responses_api_agents", "name": "maths_agent"}),
    ]
    written, report = exported(
        tmp_path, "sft", rows, min_reward=0.5, max_output_tokens=100, environments=("weather*",)
    )
    assert len(written) == 1
    assert report.left_out == {
        LeftOut.REWARD: 1,
        LeftOut.LENGTH: 1,
        LeftOut.UNKNOWN_LENGTH: 1,
        LeftOut.ENVIRONMENT: 1,
    }


@pytest.mark.parametrize("format_name", ["sft", "dpo", "kto", "grpo"])
def test_rewards_that_an_answer_could_have_forged_are_not_exported_by_default(
    tmp_path: Path, format_name: str
) -> None:
    rows = [row(0, repeat, float(repeat), tamperable=True) for repeat in range(2)]
    written, report = exported(tmp_path, format_name, rows)
    assert (written, report.left_out) == ([], {LeftOut.TAMPERABLE: 2})
    _, report = exported(tmp_path, format_name, rows, allow_tamperable=True)
    assert LeftOut.TAMPERABLE not in report.left_out


SUPERVISED: list[tuple[str, dict[str, Any], str]] = [
    ("sft", {}, "out.jsonl"),
    ("sharegpt", {}, "out.jsonl"),
    ("openai", {}, "out.jsonl"),
    ("verl", {"form": "sft"}, "out.parquet"),
    ("prime_rl", {"form": "sft"}, "out.jsonl"),
]


@pytest.mark.parametrize(("name", "options", "file"), SUPERVISED)
def test_supervised_examples_are_solved_by_default(
    tmp_path: Path, name: str, options: dict[str, Any], file: str
) -> None:
    rows = [row(task, 0, reward) for task, reward in enumerate((1.0, 0.0, 0.5, 0.0, 2.0, -1.0))]
    written, report = exported(tmp_path, name, rows, name=file, options=options)
    assert (len(written), report.left_out) == (2, {LeftOut.LOW_REWARD: 4})
    assert report.rewards == {0.0: 2, 0.5: 1, -1.0: 1}
    assert "rewards left out: -1 (1 rollouts), 0 (2 rollouts), 0.5 (1 rollouts)" in list(report.lines())
    assert report.to_json()["left_out_rewards"][1] == {"reward": 0.0, "rollouts": 2}


@pytest.mark.parametrize(("name", "options", "file"), SUPERVISED)
@pytest.mark.parametrize(
    ("bound", "kept"), [({"min_reward": 0.0}, 2), ({"min_reward": 0.3}, 1), ({"max_reward": 0.4}, 1)]
)
def test_a_bound_of_the_user_takes_the_place_of_the_default(
    tmp_path: Path, name: str, options: dict[str, Any], file: str, bound: dict[str, float], kept: int
) -> None:
    rows = [row(0, 0, 0.0), row(1, 0, 0.5)]
    _, report = exported(tmp_path, name, rows, name=file, options=options, **bound)
    assert report.exported == kept
    assert LeftOut.LOW_REWARD not in report.left_out


@pytest.mark.parametrize("name", ["dpo", "kto"])
def test_formats_that_compare_answers_take_every_reward(tmp_path: Path, name: str) -> None:
    _, report = exported(tmp_path, name, [row(0, 0, 0.0), row(0, 1, 0.5)])
    assert report.exported == 2


def test_the_most_frequent_of_many_rewards_are_printed(tmp_path: Path) -> None:
    rows = [row(task, 0, task % 8 / 10) for task in range(16)]
    _, report = exported(tmp_path, "sft", rows)
    (line,) = [line for line in report.lines() if line.startswith("rewards left out: ")]
    assert line.endswith("others (6 rollouts)")
