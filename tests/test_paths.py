from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.paths import candidates, display_path, find_file, resolve_for_reading


def test_a_file_is_looked_up_in_the_working_directory_and_then_beside_the_package(tmp_path: Path) -> None:
    assert find_file("nemo_gym/__init__.py", tmp_path) == PARENT_DIR / "nemo_gym" / "__init__.py"
    (tmp_path / "nemo_gym").mkdir()
    (tmp_path / "nemo_gym" / "__init__.py").write_text("")
    assert find_file("nemo_gym/__init__.py", tmp_path) == tmp_path / "nemo_gym" / "__init__.py"
    assert find_file("no/such/file", tmp_path) is None


def test_an_absolute_path_means_one_place(tmp_path: Path) -> None:
    assert list(candidates(tmp_path / "a.yaml")) == [tmp_path / "a.yaml"]


def test_a_path_is_read_where_it_exists_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_for_reading("pyproject.toml") == PARENT_DIR / "pyproject.toml"
    (tmp_path / "pyproject.toml").touch()
    assert resolve_for_reading("pyproject.toml") == tmp_path / "pyproject.toml"
    assert resolve_for_reading("pyproject.toml", validator=lambda path: path.stat().st_size > 0) == (
        PARENT_DIR / "pyproject.toml"
    )
    assert resolve_for_reading("absent.txt") == tmp_path / "absent.txt"


def test_a_file_of_the_gym_has_the_name_by_which_configurations_find_it(tmp_path: Path) -> None:
    name = "resources_servers/mcqa/configs/mcqa.yaml"
    assert display_path(PARENT_DIR / name, tmp_path) == name
    own = tmp_path / name
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert display_path(own, tmp_path) == name
    assert display_path(PARENT_DIR / name, tmp_path) == str(PARENT_DIR / name), (
        "the name means the user's file"
    )
    assert display_path(tmp_path / "logs", tmp_path) == "logs"
    assert display_path(Path("/elsewhere/a.yaml"), tmp_path) == "/elsewhere/a.yaml"
