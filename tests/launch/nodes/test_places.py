"""The launcher's paths on a node that has copies of its folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.launch.nodes.places import Moved, Places


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with the copy of a working folder, in which it starts, and that of a module."""
    for name in ("working/environments/env", "searched/module/part"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "working")
    monkeypatch.syspath_prepend(str(tmp_path / "searched"))
    return tmp_path


def test_every_path_is_the_same_where_nothing_was_moved() -> None:
    assert Places(None).find_place("/launcher/env") == "/launcher/env"


def test_paths_are_found_in_the_copies(copies: Path) -> None:
    places = Places(Moved("/launcher/gym", "/launcher/home", ["/launcher/home/module"]))
    assert places.find_place("/launcher/home") == str(copies / "working")
    assert places.find_place("/launcher/home/environments/env") == str(
        copies / "working" / "environments" / "env"
    )
    assert places.find_place("/launcher/home/module/part") == str(copies / "searched" / "module" / "part")
    assert places.find_place("/launcher/gym/nemo_gym/head") == str(PARENT_DIR / "nemo_gym" / "head")


def test_a_path_that_no_copy_has_is_that_of_the_launcher(copies: Path) -> None:
    places = Places(Moved("/launcher/gym", "/launcher/home"))
    for path in ("/launcher/home/other", "/launcher/gym/none", "/elsewhere"):
        assert places.find_place(path) == path
