"""The code of the gym itself, as one digest for each of its rooms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch import server_code
from nemo_gym.launch._file_digests import FileDigests
from nemo_gym.launch._library_code import ROOMS, describe_library, find_changed_rooms
from nemo_gym.launch.running_code import find_edits
from nemo_gym.names import CODE_KEY
from nemo_gym.rollouts.output.manifest import Manifest, code_identity


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    for name in (
        "verify/answers.py",
        "verify/inner/deep.py",
        "rows/keys.py",
        "json_objects.py",
        "viewer/page.py",
    ):
        path = folder / "nemo_gym" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return folder


@pytest.fixture
def digests(tmp_path: Path) -> FileDigests:
    return FileDigests(tmp_path / "kept.json")


def test_every_room_is_in_the_source_and_none_is_named_as_a_file(digests: FileDigests) -> None:
    told = dict(describe_library(PARENT_DIR, digests)["rooms"])
    assert tuple(told) == ROOMS
    assert len(set(told.values())) == len(ROOMS)
    assert not any(name.endswith(".py") for name in ROOMS)


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("verify/answers.py", "nemo_gym/verify"),
        ("verify/inner/deep.py", "nemo_gym/verify"),
        ("verify/added.py", "nemo_gym/verify"),
        ("rows/keys.py", "nemo_gym/rows"),
        ("json_objects.py", "nemo_gym/json_objects"),
    ],
)
def test_an_edit_changes_the_room_of_its_file_only(
    checkout: Path, digests: FileDigests, name: str, room: str
) -> None:
    told = {"library": describe_library(checkout, digests)}
    assert find_changed_rooms(told, digests) == []
    (checkout / "nemo_gym" / name).write_text("changed = True")
    assert find_changed_rooms(told, digests) == [room]


def test_a_renamed_and_a_removed_file_change_their_room(checkout: Path, digests: FileDigests) -> None:
    told = {"library": describe_library(checkout, digests)}
    answers = checkout / "nemo_gym/verify/answers.py"
    answers.rename(answers.with_name("renamed.py"))
    (checkout / "nemo_gym/rows/keys.py").unlink()
    assert find_changed_rooms(told, digests) == ["nemo_gym/rows", "nemo_gym/verify"]


@pytest.mark.parametrize(
    "name", ["viewer/page.py", "verify/notes.txt", "verify/__pycache__/answers.pyc", "verify/.#answers.py"]
)
def test_other_files_do_not_count(checkout: Path, digests: FileDigests, name: str) -> None:
    told = {"library": describe_library(checkout, digests)}
    path = checkout / "nemo_gym" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("changed = True")
    assert find_changed_rooms(told, digests) == []


def describe(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ServerInstance, dict[str, Any]]:
    monkeypatch.setattr(server_code, "PARENT_DIR", checkout)
    root = checkout.with_name("project")
    app = root / "resources_servers/mine/app.py"
    app.parent.mkdir(parents=True, exist_ok=True)
    app.write_text("")
    mine = ServerInstance("mine", "resources_servers", "mine", app.parent, "app.py", {}, None)
    return mine, server_code.describe_code([mine], root)


def test_an_edit_of_a_checkout_is_a_change_of_a_run_and_of_a_running_gym(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, told = describe(checkout, monkeypatch)
    (checkout / "nemo_gym/verify/answers.py").write_text("changed = True")
    assert find_edits(told, ["mine"], []) == ["nemo_gym/verify has changed"]
    root = checkout.with_name("project")
    assert server_code.find_changed_modules(mine, root, told) == ["nemo_gym/verify"]
    before = Manifest({"code": code_identity({CODE_KEY: told}, ["mine"])})
    _, again = describe(checkout, monkeypatch)
    changes = before.changes_to({"code": code_identity({CODE_KEY: again}, ["mine"])})
    assert [str(change) for change in changes] == ["nemo_gym/verify has changed"]
    assert all(change.is_of_code for change in changes)


def test_a_gym_without_rooms_and_its_runs_are_used_as_before(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, told = describe(checkout, monkeypatch)
    monkeypatch.setattr(server_code, "_IS_CHECKOUT", False)
    _, older = describe(checkout, monkeypatch)
    assert "library" not in older
    assert find_edits(older, ["mine"], []) == []
    before = Manifest({"code": code_identity({CODE_KEY: older}, ["mine"])})
    assert before.changes_to({"code": code_identity({CODE_KEY: told}, ["mine"])}) == []
