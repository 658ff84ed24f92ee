"""The likeliest mistakes with task folders: the message names the place and the remedy, and the exit code is right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_gym.sandbox.providers.rootless.debian import name_base
from tests.sandbox.rootless_images import READABLE, host_provider, needs_rootless, write_host_layer
from tests.sources.task_folders.task_maker import OFFLINE, make_task

Change = Callable[[Path], object]


def write(name: str, text: str) -> Change:
    def apply(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    return apply


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def settings(text: str) -> Change:
    return write("task.toml", text)


MISTAKES: dict[str, tuple[Change, str]] = {
    "no tests": (remove("tests/test.sh"), "it has no tests/test.sh"),
    "no instruction": (remove("instruction.md"), "it has no instruction.md"),
    "no environment": (
        lambda folder: (folder / "environment").rename(folder / "env"),
        "neither a folder environment/",
    ),
    "no toml": (settings("schema_version = "), "task.toml is not TOML"),
    "a wrong type": (settings(f'{OFFLINE}[agent]\ntimeout_sec = "soon"\n'), "agent.timeout_sec"),
    "a wrong mode": (settings('[environment]\nnetwork_mode = "off"\n'), "environment.network_mode"),
    "a name without its organization": (settings(f'[task]\nname = "one"\n{OFFLINE}'), "'organization/name'"),
    "a link that leaves": (
        lambda folder: (folder / "tests" / "x").symlink_to("/etc/passwd"),
        "leads outside of the task",
    ),
    "a cycle of links": (lambda folder: (folder / "tests" / "x").symlink_to("."), "is a cycle of links"),
    "an ignored test": (write("tests/.harborignore", "*.sh\n"), ".harborignore leaves tests/test.sh out"),
    "windows": (
        lambda folder: (settings(f'{OFFLINE}os = "windows"\n')(folder), write("tests/test.bat", "x")(folder)),
        "environment.os: the sandboxes of this gym run Linux",
    ),
    "a network": (settings("[environment]\n"), "+network=none"),
    "a disk limit": (settings(f"{OFFLINE}storage_mb = 9\n"), "+unlimited=[storage_mb]"),
    "a gpu": (settings(f"{OFFLINE}gpus = 1\n"), "environment.gpus"),
    "compose": (write("environment/docker-compose.yaml", "services: {}\n"), "a task has one container here"),
    "a secret": (settings(f'{OFFLINE}env = {{ K = "${{MY_SECRET}}" }}\n'), "+task_variables=[MY_SECRET]"),
    "another base": (write("environment/Dockerfile", "FROM python:3.12\n"), "FROM python:3.12"),
    "two stages": (write("environment/Dockerfile", "FROM debian\nFROM debian\n"), "line 2: a second stage"),
    "two modes": (
        settings(f'{OFFLINE}[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\n'),
        "excludes [verifier.environment]",
    ),
    "an artifact above its folder": (
        settings(f'artifacts = ["/a/../b"]\n{OFFLINE}'),
        "must not contain '..'",
    ),
    "text that is no UTF-8": (lambda folder: (folder / "instruction.md").write_bytes(b"\xff"), "as UTF-8"),
    "two steps of one name": (
        settings(f'{OFFLINE}[[steps]]\nname = "a"\n[[steps]]\nname = "A"\n'),
        "must differ",
    ),
}


def gym(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from nemo_gym.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_before_anything_starts(name: str, tmp_path: Path) -> None:
    change, named = MISTAKES[name]
    change(make_task(tmp_path / "task"))
    done = gym(tmp_path, "eval", "run", "task", "--agent-type", "oracle")
    assert done.returncode == 2, done.stderr
    assert named in " ".join(done.stderr.split())
    assert not (tmp_path / "results").exists()


def test_an_unknown_field_is_a_finding_with_a_suggestion(tmp_path: Path) -> None:
    make_task(tmp_path / "task", f"{OFFLINE}[agent]\ntimeout_secs = 3\n")
    done = gym(tmp_path, "dataset", "validate", "task", "--no-run")
    assert done.returncode == 0
    assert "'agent.timeout_secs' is unknown; did you mean 'timeout_sec'?" in done.stdout


def test_a_folder_without_tasks_and_one_that_is_there_are_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = gym(tmp_path, "dataset", "validate", "empty", "--no-run")
    assert done.returncode == 2
    assert "gym dataset init" in done.stderr
    make_task(tmp_path / "task")
    assert gym(tmp_path, "dataset", "init", "task").returncode == 2


def write_test(script: str) -> Change:
    return write("tests/test.sh", f"#!/bin/bash\n{script}\n")


TEXT, JSON = "/logs/verifier/reward.txt", "/logs/verifier/reward.json"
RUNNING_MISTAKES: dict[str, tuple[Change, str]] = {
    "a NaN": (
        write_test(f"echo NaN > {TEXT}"),
        "bad_reward: nothing: The task gave no reward: /logs/verifier/reward.txt is no finite",
    ),
    "a text": (write_test(f"echo good > {TEXT}"), "bad_reward: nothing: The task gave no reward"),
    "no reward file": (write_test("true"), "no_reward_file: nothing: The task gave no reward"),
    "an empty file": (write_test(f": > {TEXT}"), "empty_reward_file: nothing: The task gave no reward"),
    "two reward files": (
        write_test(f"grep -c 1 /tmp/answer > {TEXT}; echo '{{\"reward\": 0}}' > {JSON}"),
        "two_reward_files: the tests write reward.json and reward.txt; the first counts",
    ),
    "a solution that fails": (write("solution/solve.sh", "true\n"), "solution_fails: the solution gets 0"),
    "nothing that passes": (write_test(f"echo 1 > {TEXT}"), "nothing_passes: nothing gets 1"),
    "no solution": (remove("solution/solve.sh"), "no_solution"),
    "a file that is not copied": (
        write("environment/Dockerfile", "FROM debian\nCOPY absent /\n"),
        "'absent' is not in the folder of the Dockerfile",
    ),
}


@needs_rootless
@pytest.mark.parametrize("name", RUNNING_MISTAKES)
def test_a_mistake_that_shows_in_a_sandbox_is_named(name: str, tmp_path: Path) -> None:
    change, named = RUNNING_MISTAKES[name]
    change(make_task(tmp_path / "task"))
    with host_provider() as provider:
        write_host_layer(provider, name_base([]))
        options = [f"+store={provider.store.folder}", f"+readable=[{','.join(READABLE)}]"]
        done = gym(tmp_path, "dataset", "validate", "task", *options)
    assert done.returncode == 1, done.stderr
    assert named in " ".join(done.stdout.split())
    assert "0 of 1 folders are right" in done.stdout
