from __future__ import annotations

from pathlib import Path

from nemo_gym import PARENT_DIR
from nemo_gym.paths import candidates, find_file


def test_a_file_is_looked_up_in_the_working_directory_and_then_beside_the_package(tmp_path: Path) -> None:
    assert find_file("nemo_gym/__init__.py", tmp_path) == PARENT_DIR / "nemo_gym" / "__init__.py"
    (tmp_path / "nemo_gym").mkdir()
    (tmp_path / "nemo_gym" / "__init__.py").write_text("")
    assert find_file("nemo_gym/__init__.py", tmp_path) == tmp_path / "nemo_gym" / "__init__.py"
    assert find_file("no/such/file", tmp_path) is None


def test_an_absolute_path_means_one_place(tmp_path: Path) -> None:
    assert candidates(tmp_path / "a.yaml") == (tmp_path / "a.yaml",)
