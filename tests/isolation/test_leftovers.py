"""What programs wrote is found and deleted, and nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nemo_gym.isolation import leftovers
from nemo_gym.isolation.leftovers import (
    WORKSPACE_PREFIX,
    count_entries,
    count_user_entries,
    lock_place,
    open_folders,
    remove_dead_workspaces,
    remove_tree,
    remove_user_files,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
USER, OTHER = 1_073_000_002, 1_073_000_004


def test_a_place_is_locked_by_one_holder_at_a_time(tmp_path: Path) -> None:
    first = lock_place(tmp_path)
    assert first is not None
    assert lock_place(tmp_path) is None
    first.release()
    first.release()
    second = lock_place(tmp_path)
    assert second is not None
    second.release()
    assert lock_place(tmp_path / "gone") is None


def test_workspaces_of_live_gyms_stay_and_others_go(tmp_path: Path) -> None:
    live, dead, other = (
        tmp_path / name for name in (f"{WORKSPACE_PREFIX}1", f"{WORKSPACE_PREFIX}2", "someone")
    )
    for folder in (live, dead, other):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "note").write_text("kept")
    held = lock_place(live)
    remove_dead_workspaces(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([live.name, other.name])
    assert (live / "deep" / "note").read_text() == "kept"
    assert held is not None
    held.release()


@pytest.mark.parametrize("depth", [3, 3000])
def test_a_tree_of_any_depth_is_removed_without_what_its_links_lead_to(tmp_path: Path, depth: int) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(kept)
    descriptor = os.open(tree, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    assert sys.getrecursionlimit() < 3000
    remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists()
    assert kept.is_dir()


def test_entries_are_counted_up_to_a_number(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"folder_{number}").mkdir()
        (tmp_path / f"folder_{number}" / "file").touch()
    assert count_entries(tmp_path, 1000) == 40
    assert count_entries(tmp_path, 30) == 30
    assert count_entries(tmp_path / "gone", 30) == 0


@needs_root
def test_files_of_ended_users_go_from_every_open_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, nested = tmp_path / "open", tmp_path / "open" / "nested"
    for folder in (opened, nested):
        folder.mkdir()
        folder.chmod(0o1777)
    monkeypatch.setattr(leftovers, "open_folders", lambda: (opened,))
    for user, name in ((USER, "theirs"), (OTHER, "others")):
        for folder in (opened, nested):
            (folder / name).mkdir()
            (folder / name / "file").touch()
            (folder / f"{name}.txt").touch()
            for path in (folder / name, folder / name / "file", folder / f"{name}.txt"):
                os.chown(path, user, user)
    assert (count_user_entries(USER, 1000), count_user_entries(USER, 4)) == (6, 4)
    remove_user_files({USER})
    left = sorted(str(path.relative_to(opened)) for path in opened.rglob("*"))
    others = ["others", "others.txt", "others/file"]
    assert left == sorted(["nested", *others, *(f"nested/{name}" for name in others)])


def test_folders_that_every_user_can_write_to_are_found() -> None:
    assert Path("/tmp") in open_folders()
    assert not any(path.is_relative_to("/proc") for path in open_folders())
