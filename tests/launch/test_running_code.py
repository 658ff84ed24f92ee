"""The files of a running gym's servers that were edited since it started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError
from nemo_gym.launch.running_code import find_edits, refuse_edits
from nemo_gym.launch.server_code import describe_code

FOLDER = "resources_servers/mine"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in (
        (f"{FOLDER}/app.py", "from common.rules import strict"),
        (f"{FOLDER}/data/gold.json", "{}"),
        (f"{FOLDER}/data/raw.jsonl", '{"question": 1}'),
        ("common/rules.py", ""),
        ("shared/rubric.md", "Be strict."),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def describe(root: Path) -> dict[str, Any]:
    config = {"rubric": "shared/rubric.md", "datasets": [{"jsonl_fpath": f"{FOLDER}/data/raw.jsonl"}]}
    return describe_code(
        [ServerInstance("mine", "resources_servers", "mine", root / FOLDER, "app.py", config, None)], root
    )


def edits(root: Path, told: dict[str, Any], *names: str) -> list[str]:
    return find_edits(told, names or ("mine",), {(root / FOLDER / "data/raw.jsonl").resolve()})


def test_a_gym_runs_the_code_of_its_folder(root: Path) -> None:
    told = describe(root)
    (root / FOLDER / "server.log").write_text("x")
    (root / FOLDER / "data/raw.jsonl").write_text("other tasks")
    assert edits(root, told) == []


@pytest.mark.parametrize(
    "name", [f"{FOLDER}/app.py", f"{FOLDER}/data/gold.json", "common/rules.py", "shared/rubric.md"]
)
def test_an_edited_file_and_a_removed_one_are_named(root: Path, name: str) -> None:
    told = describe(root)
    (root / name).write_text("changed = True")
    assert edits(root, told) == [f"{name} has changed"]
    (root / name).unlink()
    assert edits(root, told) == [f"{name} was removed"]


def test_a_new_file_of_the_folder_is_named(root: Path) -> None:
    told = describe(root)
    (root / FOLDER / "scoring.py").write_text("")
    assert edits(root, told) == [f"{FOLDER}/scoring.py was added"]


def test_servers_that_take_no_part_and_gyms_of_other_machines_are_left_out(root: Path) -> None:
    told = describe(root)
    (root / FOLDER / "app.py").write_text("changed = True")
    assert edits(root, told, "other") == []
    assert edits(root, {**told, "machine": "elsewhere"}) == []


def test_a_server_whose_folder_tells_no_files_has_no_new_ones(root: Path) -> None:
    told = describe(root)
    told["servers"][0]["files"] = []
    assert edits(root, told) == []


def test_the_message_says_how_to_go_on() -> None:
    refuse_edits([], "the gym")
    with pytest.raises(ConfigError, match=r"a\.py has changed") as caught:
        refuse_edits(["a.py has changed"], "the gym")
    assert "gym env start" in str(caught.value)
    assert "--use-running-code" in str(caught.value)
