"""The tasks at a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders.dataset import find_tasks, is_folder_of_tasks
from nemo_gym.sources.task_folders.digest import digest_folder
from nemo_gym.sources.task_folders.folder import FolderTask
from tests.sources.task_folders.task_maker import make_task

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
        (HEAD + '[[files]]\npath = "note"\ndigest = "1"', "the file note has another digest"),
    ],
)
def test_a_dataset_that_is_wrong_is_refused(text: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("x")
    (tmp_path / "dataset.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        find_tasks(tmp_path)
    assert named in raised.value.failure.message
