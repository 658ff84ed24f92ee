from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.export.formats import NAMES
from nemo_gym.failures import ConfigError
from nemo_gym.rows.identity import RolloutId
from tests.export.rows import call, exported, output, row, text, write


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
    name = "out.parquet" if format_name == "verl" else "out.jsonl"
    _, report = exported(tmp_path, format_name, [row(0, 0), row(0, 1, _ng_scored_by="x")], name=name)
    unfinished, codes = [line for line in report.lines() if line.startswith("note: ")]
    assert "2 of 9 planned rollouts; the run has not ended" in unfinished
    assert "2 codes scored the rows" in codes
    (run,) = report.to_json()["runs"]
    assert (run["rows"], run["planned"], run["state"]) == (2, 9, "stopped")
