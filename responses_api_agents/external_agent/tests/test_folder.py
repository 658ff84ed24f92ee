"""Folders that agents leave: everything in them is hostile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from responses_api_agents.external_agent.folder import (
    MOST_DEPTH,
    MOST_ENTRIES,
    is_larger,
    take_files,
)
from responses_api_agents.external_agent.tests.agents import AgentGym, folder_row, names_in
from tests.serving.environments import text


def everything(path: str) -> bool:
    return True


def deep(folder: Path) -> None:
    place = folder.joinpath(*["d"] * (MOST_DEPTH + 5))
    place.mkdir(parents=True)
    (place / "bad").write_text("x")


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a link to a file": lambda folder: (folder / "bad").symlink_to("/etc/passwd"),
    "a link to a folder": lambda folder: (folder / "bad").symlink_to("/etc"),
    "a link out by its parent": lambda folder: (folder / "bad").symlink_to("../../../etc/hostname"),
    "a second name": lambda folder: os.link(folder / "good", folder / "bad"),
    "a pipe": lambda folder: os.mkfifo(folder / "bad"),
    "a long file": lambda folder: (folder / "bad").write_bytes(b"x" * 2000),
    "a sparse file": lambda folder: os.truncate(os.open(folder / "bad", os.O_CREAT | os.O_WRONLY), 1 << 40),
    "bytes that are no text": lambda folder: (folder / "bad").write_bytes(b"\xff\xfe\x00"),
    "a name that is no text": lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff")).write_text(
        "x"
    ),
    "a file too deep": deep,
}


@pytest.mark.parametrize("trick", HOSTILE)
def test_hostile_files_are_left_out_and_the_others_are_taken(tmp_path: Path, trick: str) -> None:
    (tmp_path / "good").write_text("good")
    (tmp_path / "fine").write_text("fine")
    HOSTILE[trick](tmp_path)
    taken = take_files(tmp_path, everything, file_bytes=1000)
    assert not any("bad" in path for path in taken.files)
    assert taken.files["fine"] == "fine"
    assert any("bad" in path for path in taken.left_out) or trick == "a file too deep"


def test_files_are_taken_up_to_a_size_together(tmp_path: Path) -> None:
    for n in range(10):
        (tmp_path / str(n)).write_text("x" * 100)
    taken = take_files(tmp_path, everything, total_bytes=550)
    assert (len(taken.files), len(taken.left_out)) == (5, 5)


def test_a_report_of_what_was_left_out_is_bounded(tmp_path: Path) -> None:
    for n in range(200):
        (tmp_path / f"{n}").symlink_to("/etc/passwd")
    assert len(take_files(tmp_path, everything).left_out) == 50


def test_the_size_of_a_folder_counts_disk_space_and_entries(tmp_path: Path) -> None:
    os.truncate(os.open(tmp_path / "sparse", os.O_CREAT | os.O_WRONLY), 1 << 40)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert not is_larger(tmp_path, 100_000)
    (tmp_path / "full").write_bytes(b"x" * 200_000)
    assert is_larger(tmp_path, 100_000)
    many = tmp_path / "many"
    many.mkdir()
    for n in range(MOST_ENTRIES + 1):
        (many / str(n)).symlink_to("x")
    assert is_larger(tmp_path, 1 << 40)


async def test_a_tree_that_python_cannot_remove_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = """
ask()
for _ in range(3000):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
"""
    row = await AgentGym(program, [text("")]).run("agent", folder_row({}, "*"))
    assert row["folder_files"] == {}
    assert names_in(tmp_path) == []
