"""The tasks at a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders.dataset import find_tasks, is_folder_of_tasks, read_gym_table
from nemo_gym.sources.task_folders.digest import digest_folder
from nemo_gym.sources.task_folders.folder import FolderTask
from nemo_gym.sources.task_folders.requirements import Terms
from nemo_gym.sources.task_folders.rows import build_rows
from tests.sources.task_folders.task_maker import OFFLINE, make_task

HEAD = '[dataset]\nname = "org/set"\n[gym]\nlicense = "MIT"\ntype = "train"\n'


def test_a_task_a_folder_of_them_and_nothing(tmp_path: Path) -> None:
    for name in ("b", "a"):
        make_task(tmp_path / "tasks" / name)
    (tmp_path / "tasks" / "other").mkdir()
    assert [path.name for path in find_tasks(tmp_path / "tasks").folders] == ["a", "b"]
    assert [path.name for path in find_tasks(tmp_path / "tasks" / "b").folders] == ["b"]
    assert not is_folder_of_tasks(tmp_path / "tasks" / "other")
    with pytest.raises(ConfigError, match="There is no task"):
        find_tasks(tmp_path / "tasks" / "other")
    with pytest.raises(ConfigError, match="There is no folder"):
        find_tasks(tmp_path / "dataset.toml")
    with pytest.raises(ConfigError, match="is a file, and tasks are folders"):
        find_tasks(tmp_path / "tasks" / "a" / "task.toml")


def test_a_dataset_names_its_tasks_by_digest(tmp_path: Path) -> None:
    digests = {name: digest_folder(make_task(tmp_path / name)) for name in ("a", "b", "c")}
    listed = "".join(
        f'[[tasks]]\nname = "org/{name}"\ndigest = "sha256:{digests[name]}"\n' for name in ("b", "a")
    )
    (tmp_path / "dataset.toml").write_text(HEAD + listed)
    dataset = find_tasks(tmp_path / "dataset.toml")
    assert (dataset.name, [path.name for path in dataset.folders]) == ("org/set", ["b", "a"])
    assert all(isinstance(task, FolderTask) for task in dataset.load())
    (tmp_path / "a" / "instruction.md").write_text("Other.")
    faults = [task.reason for task in find_tasks(tmp_path).load() if not isinstance(task, FolderTask)]
    assert faults == ["changed"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[dataset", "is no dataset"),
        ("[[tasks]]", "is no dataset"),
        (HEAD + '[[tasks]]\nname = "org/x"\ndigest = "1"', "the task org/x is not in"),
        (HEAD + '[[files]]\npath = "../x"\ndigest = "1"', "the file ../x is not in the dataset"),
        (HEAD + 'allowed = ["x"]', "gym.allowed"),
        (HEAD + "[gym.defaults]\nnum_repeats = 3", "gym.defaults.num_repeats"),
        (HEAD + "[gym.defaults]\ntimeout_multiplier = 0", "gym.defaults.timeout_multiplier"),
        (HEAD + '[gym.tasks."x".environment]\ncpus = 1', '[gym.tasks."x"] names no task'),
        (HEAD + '[[files]]\npath = "note"\ndigest = "1"', "the file note has another digest"),
    ],
)
def test_a_dataset_that_is_wrong_is_refused(text: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("x")
    (tmp_path / "dataset.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        find_tasks(tmp_path)
    assert named in raised.value.failure.message


def test_a_dataset_changes_its_tasks_and_their_rows_say_so(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_task(tmp_path / name, f"{OFFLINE}memory_mb = 100\n[agent]\ntimeout_sec = 30\n")
    file = tmp_path / "dataset.toml"
    file.write_text(HEAD + 'domain = "coding"\nverified = true\n')
    plain = {row["task_id"]: row for row in build_rows(find_tasks(tmp_path), Terms()).rows}
    assert (plain["a"]["task_folder"]["domain"], plain["a"]["task_folder"]["verified"]) == ("coding", True)
    assert plain["a"]["agent_timeout_s"] == 30
    assert "files" not in plain["a"]["task_folder"]
    with file.open("a") as added:
        added.write('[gym.tasks."a".environment]\nmemory_mb = 300\n')
    (one,) = find_tasks(tmp_path / "a").load()
    assert isinstance(one, FolderTask)
    assert one.settings.environment.memory_mb == 300
    changed = {row["task_id"]: row for row in build_rows(find_tasks(tmp_path), Terms()).rows}
    assert changed["b"] == plain["b"]
    assert changed["a"]["folder_digest"] == plain["a"]["folder_digest"]
    assert changed["a"]["task_folder"]["files"] == one.digest_outer_files()
    assert read_gym_table(tmp_path).digest("a") == one.dataset_digest
    assert read_gym_table(tmp_path / "a").digest("a") is None


def test_a_wrong_field_of_one_task_refuses_that_task(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make_task(tmp_path / name)
    wrong = '[gym.tasks."a".environment]\nmemory_mb = "x"\n[gym.tasks."b".environment]\nram = 1\n'
    (tmp_path / "dataset.toml").write_text(HEAD + wrong)
    found = build_rows(find_tasks(tmp_path), Terms())
    assert [row["task_id"] for row in found.rows] == ["c"]
    assert found.reasons == {"invalid_settings": 2}
    assert '[gym.tasks."b"] of dataset.toml: [environment] has no field ram' in found.refused["b"][0]
