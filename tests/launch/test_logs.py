from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from nemo_gym.launch import _logs as logs

CHAINED = """INFO something before
Traceback (most recent call last):
  File "app.py", line 3, in <module>
    load()
KeyError: 'grader'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "app.py", line 9, in <module>
    run()
pydantic_core._pydantic_core.ValidationError: 1 validation error for Config
max_steps
  Input should be a valid integer [type=int_parsing]
"""


def test_the_exception_that_ended_the_process_is_shown_with_its_whole_message() -> None:
    assert logs.root_cause(CHAINED.splitlines()) == (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Config\n"
        "max_steps\n"
        "  Input should be a valid integer [type=int_parsing]"
    )


def test_a_log_without_a_traceback_is_explained_by_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    explanation = logs.explain_death(log).splitlines()
    assert explanation[-1] == "line 99"
    assert len(explanation) == logs.TAIL_LINES


RESTARTED = "Traceback (most recent call last):\n  File\nOSError: no table\n--- restart 1 ---\n"


@pytest.mark.parametrize(
    "after",
    ["", "--- restart 2 ---\n", "\n--- restart 2 ---\n\n", "--- rotated; earlier lines are in x.log.1 ---\n"],
)
def test_a_silent_restart_is_explained_by_the_error_before_it(tmp_path: Path, after: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(RESTARTED + after)
    assert logs.explain_death(log) == "OSError: no table"


def test_the_last_start_that_wrote_anything_explains_a_death(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(RESTARTED + "out of memory\n--- restart 2 ---\n")
    assert logs.explain_death(log) == "out of memory"
    log.write_text("--- restart 1 ---\n")
    assert logs.explain_death(log) == "it wrote nothing to its log"
    log.write_text("--- the author's own line ---\n")
    assert logs.explain_death(log) == "--- the author's own line ---"


def test_only_what_was_written_since_the_last_start_explains_a_death(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(CHAINED)
    assert logs.explain_death(log, since=logs.size(log)) == "it wrote nothing to its log"
    assert logs.explain_death(tmp_path / "never_written.log") == "it wrote nothing to its log"


def test_a_large_log_is_emptied_and_its_end_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("ab", buffering=0) as server:
        server.write(b"early\n" * 100 + b"late\n")
        logs.rotate(log, max_bytes=1000, kept_bytes=5)
        assert logs.size(log) == 605
        logs.rotate(log, max_bytes=100, kept_bytes=5)
        server.write(b"after\n")
    assert (tmp_path / "server.log.1").read_bytes() == b"late\n"
    assert logs.tail(log, since=605) == ["--- rotated; earlier lines are in server.log.1 ---", "after"]


def test_folders_of_the_same_second_are_apart_and_private(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5)
    first, second = logs.new_log_folder(tmp_path, now), logs.new_log_folder(tmp_path, now)
    assert first.name.startswith("20260102_030405_")
    assert first != second
    assert second.stat().st_mode & 0o777 == 0o700


def test_a_log_is_named_after_its_server_whatever_the_name_holds(tmp_path: Path) -> None:
    assert logs.log_path(tmp_path, "my/odd name", 0, 1) == tmp_path / "my_odd_name.log"
    assert logs.log_path(tmp_path, "wide", 1, 2) == tmp_path / "wide.1.log"


def test_only_the_logs_of_old_gyms_are_removed(tmp_path: Path) -> None:
    gone, running = 4_000_000, os.getpid()
    names = [f"20260101_00000{n}_{gone}" for n in range(4)]
    for name in (*names, f"20250101_000000_{running}", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.log").write_text("x")
    logs.prune(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*names[2:], f"20250101_000000_{running}", "notes"]
    )


def test_an_error_of_the_gym_is_told_without_its_class() -> None:
    lines = [
        "Traceback (most recent call last):",
        "  File x",
        "nemo_gym.config.problems.ConfigErrors: app.py:3: no model",
    ]
    assert logs.root_cause(lines) == "app.py:3: no model"
    assert logs.root_cause([*lines[:2], "nemo.Error: x"]) == "nemo.Error: x"
