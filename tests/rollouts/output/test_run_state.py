"""A stored run tells whether it is running, ended or was killed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.packed_file import append_to
from nemo_gym.rollouts.output.run_state import RunProgress, RunState, is_being_written, name_state

COUNTS = {"planned": 5, "finished_before": 1, "completed": 2, "truncated": 1}


def files_with(folder: Path, *starts: dict[str, Any], **members: Any) -> RunFiles:
    files = RunFiles.from_output(folder / "out.jsonl")
    document = {"schema_version": 1, "identity": {}, "starts": list(starts), **members}
    files.manifest.write_bytes(orjson.dumps(document))
    files.rows.write_bytes(b'{"reward":1.0}\n')
    return files


@contextmanager
def being_written(rows: Path) -> Iterator[None]:
    with closing(append_to(rows)):
        yield


def test_a_killed_run_has_not_ended(tmp_path: Path) -> None:
    files = files_with(tmp_path, {"planned": 9, "end": "complete"}, {"planned": 1_200})
    progress = RunProgress.read(files)
    assert (progress.state, progress.planned, progress.end) == (RunState.STOPPED, 1_200, None)
    said = progress.describe(1)
    assert said is not None
    assert said.startswith("1 of 1,200 planned rollouts; the run has not ended: ")
    assert "--resume (+resume_from_cache=true)" in said


def test_the_bound_of_a_run_that_draws_is_no_plan(tmp_path: Path) -> None:
    files = files_with(tmp_path, {"planned": 31_457_280})
    files.draws.write_bytes(b"{}\n")
    said = RunProgress.read(files).describe(808)
    assert said is not None
    assert said.startswith("808 rollouts; the run has not ended: ")


@pytest.mark.parametrize("ending", ["", ".zst", ".gz"])
def test_a_run_that_is_written_is_running(tmp_path: Path, ending: str) -> None:
    files_with(tmp_path, {"planned": 3})
    files = RunFiles.from_output(tmp_path / f"out.jsonl{ending}")
    with being_written(files.rows):
        assert is_being_written(files.rows)
        progress = RunProgress.read(files)
        assert progress.state is RunState.RUNNING
        assert progress.describe(1) == "1 of 3 planned rollouts; the run has not ended: it is running"
    assert not is_being_written(files.rows)
    assert not is_being_written(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("start", "rows", "said"),
    [
        ({"end": "complete", "planned": 4, "counts": {**COUNTS, "planned": 4}}, 4, None),
        ({"end": "partial", "planned": 5, "counts": COUNTS}, 4, None),
        (
            {"end": "interrupted", "planned": 5, "counts": COUNTS},
            4,
            "4 of 5 .* ended early \\(interrupted\\)",
        ),
        ({"end": "complete", "planned": 4, "counts": {**COUNTS, "planned": 4}}, 3, "3 of 4 .* were removed"),
        ({"planned": 4}, 4, "4 of 4 .* has not ended"),
        ({}, 4, None),
    ],
)
def test_a_run_with_all_rows_of_its_end_says_nothing(
    tmp_path: Path, start: dict[str, Any], rows: int, said: str | None
) -> None:
    described = RunProgress.read(files_with(tmp_path, start)).describe(rows)
    assert described is None if said is None else re.search(said, described or "")


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'{"schema_version":1,"identity":{},"starts":{}}', b'{"schema_version":9}']
)
def test_a_damaged_manifest_is_said_and_is_no_error(tmp_path: Path, content: bytes) -> None:
    files = files_with(tmp_path)
    files.manifest.write_bytes(content)
    progress = RunProgress.read(files)
    assert progress.state is RunState.UNKNOWN
    assert "it is unknown whether the run has all of its rows" in (progress.describe(1) or "")


def test_rows_of_other_programs_have_no_plan(tmp_path: Path) -> None:
    files = files_with(tmp_path)
    files.manifest.unlink()
    assert RunProgress.read(files) == RunProgress(RunState.UNKNOWN)
    assert RunProgress.read(files).describe(1) is None


def test_the_first_code_is_that_of_the_list_or_of_the_identity(tmp_path: Path) -> None:
    files = files_with(tmp_path, {}, codes=[{"digest": "one"}, {"digest": "two"}])
    assert RunProgress.read(files).first_code == "one"
    assert RunProgress.read(files_with(tmp_path, {}, identity={"code": {}})).first_code is not None
    assert RunProgress.read(files_with(tmp_path, {})).first_code is None


def test_ends_have_states() -> None:
    assert [name_state(end, is_running=False) for end in ("complete", "partial", "broken", None)] == [
        RunState.COMPLETE,
        RunState.PARTIAL,
        RunState.STOPPED,
        RunState.STOPPED,
    ]
