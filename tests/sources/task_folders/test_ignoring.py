"""The files that count, and links that leave a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.sources.task_folders.ignoring import (
    FileFilter,
    FolderLinkError,
    check_links,
    find_scope,
    list_entries,
    read_ignored,
)
from tests.sources.task_folders.task_maker import make_task


def test_rules_hold_below_tests_and_solution_alone() -> None:
    assert [
        find_scope(tuple(path.split("/")))
        for path in ("tests/a", "solution", "steps/a/tests/b", "environment/x")
    ] == [
        1,
        1,
        3,
        None,
    ]


def test_deeper_rules_come_after_higher_ones(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    for path in ("a.log", "keep.log", "deep/b.log", "deep/c"):
        (folder / "tests" / path).parent.mkdir(exist_ok=True)
        (folder / "tests" / path).touch()
    (folder / "tests" / ".harborignore").write_text("*.log\n!keep.log\n")
    (folder / "tests" / "deep" / ".harborignore").write_text("!b.log\nc\n")
    files = FileFilter(folder)
    found = [path.relative_to(folder / "tests").as_posix() for path in list_entries(folder / "tests", files)]
    assert sorted(found) == ["deep", "deep/b.log", "keep.log", "test.sh"]
    (folder / "tests" / "alias").symlink_to("a.log")
    assert files.excludes(folder / "tests" / "alias")


def test_links_inside_are_followed_and_others_refused(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "tests" / "inner").symlink_to("../environment")
    check_links(folder / "tests", folder)
    (folder / "environment" / "far").symlink_to(tmp_path)
    with pytest.raises(FolderLinkError, match="leads outside"):
        check_links(folder / "tests", folder)


def test_the_usual_files_are_left_out_unless_the_task_has_rules(tmp_path: Path) -> None:
    assert read_ignored(tmp_path).match_file("tests/__pycache__/a.pyc")
    (tmp_path / ".gitignore").write_text("*.tmp\n")
    assert not read_ignored(tmp_path).match_file("a.pyc")
    assert read_ignored(tmp_path).match_file("deep/a.tmp")
