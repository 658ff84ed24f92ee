"""`gym dataset validate`: the loader, the linter, the solution and nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider
from nemo_gym.sources.task_folders.checking import FolderCheck, check_folders
from nemo_gym.sources.task_folders.dataset import find_tasks
from nemo_gym.sources.task_folders.lint.findings import DEFAULT_RULES
from nemo_gym.sources.task_folders.requirements import Terms
from tests.sandbox.rootless_images import host_provider, needs_rootless
from tests.sources.task_folders.task_maker import OFFLINE, HostSandboxes, make_task

pytestmark = needs_rootless


@pytest.fixture(scope="module")
def provider() -> Iterator[RootlessProvider]:
    with host_provider() as made:
        yield made


async def check(folder: Path, provider: RootlessProvider | None) -> FolderCheck:
    sandboxes = HostSandboxes(provider) if provider is not None else None
    (found,) = [each async for each in check_folders(find_tasks(folder), Terms(), sandboxes, DEFAULT_RULES)]
    return found


async def test_a_right_task_gets_one_and_zero_twice(provider: RootlessProvider, tmp_path: Path) -> None:
    found = await check(make_task(tmp_path / "task"), provider)
    assert found.is_right
    assert found.rewards == {"nothing": [0.0, 0.0], "solution": [1.0, 1.0]}
    assert [finding.rule for finding in found.findings] == ["shared-verifier"]


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("solution/solve.sh", "#!/bin/bash\n", "solution_fails: the solution gets 0"),
        (
            "tests/test.sh",
            "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
            "nothing_passes: nothing gets 1",
        ),
        (
            "tests/test.sh",
            "#!/bin/bash\necho $RANDOM$RANDOM > /logs/verifier/reward.txt\n",
            "unsteady: nothing gets",
        ),
        ("tests/test.sh", "#!/bin/bash\n", "no_reward_file: nothing"),
    ],
)
async def test_a_wrong_task_is_told_why(
    file: str, text: str, problem: str, provider: RootlessProvider, tmp_path: Path
) -> None:
    folder = make_task(tmp_path / "task")
    (folder / file).write_text(text)
    assert any(each.startswith(problem) for each in (await check(folder, provider)).problems)


async def test_without_sandboxes_nothing_is_started(tmp_path: Path) -> None:
    assert (await check(make_task(tmp_path / "right"), None)).is_right
    assert (await check(make_task(tmp_path / "wrong", ""), None)).problems[0].startswith("network_public: ")


SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'


@pytest.mark.parametrize(
    ("settings", "remark"),
    [
        (
            f'schema_version = "9.9"\n{OFFLINE}',
            "schema_version: '9.9' is unknown, and this gym reads 1.0 to 1.4",
        ),
        (
            f"{OFFLINE}{SEPARATE}",
            "no_artifacts: the separate verifier gets the files in /logs/artifacts alone",
        ),
        (f'artifacts = ["/tmp/x"]\n{OFFLINE}{SEPARATE}', None),
        (f'version = "1.0"\n{OFFLINE}', None),
    ],
)
async def test_settings_that_an_author_hardly_means_are_remarked_on(
    settings: str, remark: str | None, tmp_path: Path
) -> None:
    found = await check(make_task(tmp_path / "task", settings), None)
    assert found.is_right
    assert len(found.remarks) == (remark is not None)
    assert all(each.startswith(str(remark)) for each in found.remarks)


async def test_a_task_without_a_solution_is_remarked_on(tmp_path: Path) -> None:
    found = await check(make_task(tmp_path / "task", without=("solution/solve.sh",)), None)
    assert found.is_right
    assert [each.split(":")[0] for each in found.remarks] == ["no_solution"]


@pytest.mark.parametrize("is_run", [False, True])
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("def verify(:\n", "verifier_program: tests/verifier.py: line 1: "),
        ("def check():\n    return 1\n", "verifier_program: tests/verifier.py: it has no function `verify`"),
    ],
)
async def test_a_verifier_program_that_cannot_run_is_wrong(
    text: str, fault: str, is_run: bool, provider: RootlessProvider, tmp_path: Path
) -> None:
    folder = make_task(tmp_path / "task", without=("tests/test.sh",))
    (folder / "tests").mkdir()
    (folder / "tests" / "verifier.py").write_text(text)
    found = await check(folder, provider if is_run else None)
    assert any(each.startswith(fault) for each in found.problems)
    (folder / "task.toml").write_text("")
    refused = await check(folder, provider if is_run else None)
    assert {each.split(":")[0] for each in refused.problems} == {"network_public", "verifier_program"}


async def test_a_verifier_program_beside_a_test_script_does_not_count(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "tests" / "verifier.py").write_text("def verify(:\n")
    assert (await check(folder, None)).is_right


async def test_a_verifier_program_is_given_what_it_names(provider: RootlessProvider, tmp_path: Path) -> None:
    folder = make_task(
        tmp_path / "task",
        '[metadata]\nwanted = "1"\n[environment]\nnetwork_mode = "no-network"\nworkdir = "/tmp"\n',
    )
    (folder / "tests" / "test.sh").unlink()
    (folder / "tests" / "verifier.py").write_text(
        "async def verify(task_data, workspace):\n"
        "    file = workspace / 'answer'\n"
        "    right = file.exists() and file.read_text().strip() == task_data['wanted']\n"
        "    return {'reward': float(right), 'length': 2}\n"
    )
    found = await check(folder, provider)
    assert found.is_right, found.problems


@pytest.mark.parametrize(
    ("settings", "remarks"),
    [(OFFLINE, 1), (f'artifacts = ["/tmp/answer"]\n{OFFLINE}[verifier]\nenvironment_mode = "separate"\n', 0)],
)
async def test_a_test_that_runs_a_program_by_its_name_can_be_forged_in_a_shared_sandbox(
    settings: str, remarks: int, provider: RootlessProvider, tmp_path: Path
) -> None:
    test = "#!/bin/bash\npytest /tests && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    folder = make_task(
        tmp_path / "task", settings.replace("[environment]", '[environment]\nenv = { PATH = "/opt/x:/bin" }')
    )
    (folder / "tests" / "test.sh").write_text(test)
    found = await check(folder, provider)
    assert len([each for each in found.remarks if each.startswith("forgeable: ")]) == remarks
