"""The paths of a run's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.files import (
    RunFiles,
    aggregate_metrics_path_for,
    failures_path_for,
    find_stem,
    materialized_path_for,
)


def test_all_files_of_a_run_are_named_after_its_rows(tmp_path: Path) -> None:
    files = RunFiles.from_output(tmp_path / "out.jsonl")
    assert files.rows == tmp_path / "out.jsonl"
    assert files.failures == tmp_path / "out_failures.jsonl"
    assert files.manifest == tmp_path / "out_run.json"
    assert files.aggregate_metrics == tmp_path / "out_aggregate_metrics.json"
    assert files.materialized_inputs == tmp_path / "out_materialized_inputs.jsonl"


def test_a_stem_may_have_dots(tmp_path: Path) -> None:
    assert RunFiles.from_output(tmp_path / "v1.2.jsonl").failures == tmp_path / "v1.2_failures.jsonl"


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_what_is_written_row_by_row_is_compressed_as_the_output_is(tmp_path: Path, packing: str) -> None:
    files = RunFiles.from_output(tmp_path / f"out.jsonl{packing}")
    assert files.rows == tmp_path / f"out.jsonl{packing}"
    assert files.failures == tmp_path / f"out_failures.jsonl{packing}"
    assert files.materialized_inputs == tmp_path / f"out_materialized_inputs.jsonl{packing}"
    assert files.manifest == tmp_path / "out_run.json"


def test_a_run_is_moved_aside_in_whatever_form_it_is(tmp_path: Path) -> None:
    for name in ("out.jsonl.zst", "out_failures.1.jsonl.zst", "out.jsonl.zst.journal", "out_run.json"):
        (tmp_path / name).write_text(name)
    plain = RunFiles.from_output(tmp_path / "out.jsonl")
    assert plain.find_other_form() == RunFiles.from_output(tmp_path / "out.jsonl.zst")
    aside = plain.move_aside()
    assert aside == RunFiles.from_output(tmp_path / "out.1.jsonl.zst")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.1.jsonl.zst", "out.1.jsonl.zst.journal", "out.1_failures.1.jsonl.zst", "out.1_run.json",
    ]  # fmt: skip
    assert plain.move_aside() is None


@pytest.mark.parametrize("name", ["out", "out.json", "out.jsonl.bz2", "out.zst"])
def test_an_output_that_is_no_jsonl_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"does not end in \.jsonl"):
        RunFiles.from_output(tmp_path / name)


def test_a_folder_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        RunFiles.from_output(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be used"):
        RunFiles.from_output(tmp_path / "file" / "out.jsonl").make_folder()
    for name in ("file/out.jsonl", "file/deeper/out.jsonl"):
        with pytest.raises(ConfigError, match="cannot be used"):
            RunFiles.from_output(tmp_path / name).check_folder()


def test_a_check_of_the_folder_creates_nothing(tmp_path: Path) -> None:
    RunFiles.from_output(tmp_path / "results" / "deeper" / "out.jsonl").check_folder()
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_run_are_found_by_its_rows(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    assert failures_path_for(rows) == tmp_path / "out_failures.jsonl"
    assert materialized_path_for(rows) == tmp_path / "out_materialized_inputs.jsonl"
    assert aggregate_metrics_path_for(rows) == tmp_path / "out_aggregate_metrics.json"


def test_the_stem_of_a_file_of_rows_is_its_name_without_the_ending() -> None:
    names = ("t_0.3.jsonl", "v1.2.jsonl.zst", "run.1")
    assert [find_stem(Path(name)) for name in names] == ["t_0.3", "v1.2", "run.1"]
