"""One task folder, right and wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym.sources.task_folders.folder import TaskFolderError, is_task_folder, load_folder, strip_canary
from tests.sources.task_folders.task_maker import OFFLINE, make_steps, make_task


def find_reason(folder: Path) -> str:
    with pytest.raises(TaskFolderError) as raised:
        load_folder(folder)
    return raised.value.reason


def test_a_folder_is_loaded_with_its_instruction_and_scripts(tmp_path: Path) -> None:
    task = load_folder(make_task(tmp_path / "task"))
    assert (task.name, task.instruction()) == ("task", "Write 1 to /tmp/answer.\n")
    assert task.find_test(None) == task.root / "tests" / "test.sh"
    assert task.find_solution() == task.root / "solution" / "solve.sh"
    assert is_task_folder(tmp_path / "task")
    assert not is_task_folder(tmp_path)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("tests/test.sh", "missing_tests"),
        ("instruction.md", "missing_instruction"),
        ("task.toml", "missing_file"),
        ("environment/Dockerfile", "missing_environment"),
    ],
)
def test_what_is_missing_is_named(missing: str, reason: str, tmp_path: Path) -> None:
    assert find_reason(make_task(tmp_path / "task", without=(missing,))) == reason


def test_settings_that_are_wrong_are_told_apart(tmp_path: Path) -> None:
    assert find_reason(make_task(tmp_path / "one", "x = ")) == "invalid_toml"
    assert find_reason(make_task(tmp_path / "two", 'agent = "x"')) == "invalid_settings"
    assert find_reason(make_task(tmp_path / "three", tests__x="") / "nowhere") == "missing_file"


@pytest.mark.parametrize(
    "place", ["tests/link", "solution/link", "environment/link", "instruction.md", "task.toml"]
)
def test_no_link_leaves_the_task(place: str, tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    (tmp_path / "outside").write_text("secret")
    (folder / place).unlink(missing_ok=True)
    (folder / place).symlink_to(tmp_path / "outside")
    assert find_reason(folder) == "link_leaves_task"


def test_cycles_and_special_files_are_refused_and_block_nothing(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "one")
    (folder / "tests" / "loop").symlink_to(".")
    assert find_reason(folder) == "link_leaves_task"
    folder = make_task(tmp_path / "two", without=("instruction.md",))
    os.mkfifo(folder / "instruction.md")
    assert find_reason(folder) == "unreadable"


def test_an_ignored_test_and_a_text_that_is_no_utf8_are_refused(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "one")
    (folder / "tests" / ".harborignore").write_text("test.sh\n")
    assert find_reason(folder) == "test_ignored"
    folder = make_task(tmp_path / "two")
    (folder / "instruction.md").write_bytes(b"\xff")
    assert find_reason(folder) == "unreadable"


def test_a_verifier_program_stands_for_a_test_script(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task", without=("tests/test.sh",))
    (folder / "tests").mkdir()
    (folder / "tests" / "verifier.py").write_text("def verify(): return 1\n")
    assert load_folder(folder).find_test(None) is None


def test_a_step_has_its_own_files_or_the_tasks(tmp_path: Path) -> None:
    task = load_folder(make_steps(tmp_path / "task", "", {"a": {}, "b": {}}))
    first, second = task.steps
    assert task.instruction(first) == "Do a."
    assert task.find_test(second) == task.root / "steps" / "b" / "tests" / "test.sh"
    assert task.find_solution(second) is None


def test_the_image_of_a_separate_verifier_is_the_nearest(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task", f'{OFFLINE}[verifier]\nenvironment_mode = "separate"\n')
    image = load_folder(folder).find_verifier_image()
    assert image is not None
    assert (image.folder, image.has_tests) == (folder / "environment", False)
    (folder / "tests" / "Dockerfile").write_text("FROM debian\n")
    image = load_folder(folder).find_verifier_image()
    assert image is not None
    assert (image.folder, image.has_tests) == (folder / "tests", True)


def test_comments_that_mark_the_data_are_cut() -> None:
    assert strip_canary("<!-- CANARY 1 -->\n# canary 2\n\n\nDo it.\n# canary\n") == "Do it.\n# canary\n"
    assert strip_canary("Do it.") == "Do it."


def test_data_that_is_no_object_is_a_fault_of_the_task(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task", f"{OFFLINE}[metadata]\nlevel = 3\n")
    assert load_folder(folder).read_task_data() == {"level": 3}
    (folder / "task_data.json").write_text("[1]")
    with pytest.raises(TaskFolderError, match=r"task_data.json is no JSON object"):
        load_folder(folder)


def test_the_verifier_program_of_a_step_comes_before_those_of_its_task_and_dataset(tmp_path: Path) -> None:
    folder = make_steps(tmp_path / "task", "", {"one": {"tests/verifier.py": ""}, "two": {}})
    (tmp_path / "dataset.toml").touch()
    (tmp_path / "verifier.py").touch()
    task = load_folder(folder)
    assert [task.find_program(step) for step in task.steps] == [
        folder / "steps" / "one" / "tests" / "verifier.py",
        tmp_path / "verifier.py",
    ]
    (folder / "tests").mkdir()
    (folder / "tests" / "verifier.py").touch()
    assert task.find_program(task.steps[1]) == folder / "tests" / "verifier.py"
