"""A line of `gym eval run` whose target is a folder of tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.cli.short.task_folders import place_task_folders, read_terms
from nemo_gym.cli.short.translation import GymLine
from nemo_gym.config.loading import load
from nemo_gym.failures import ConfigError
from tests.sources.task_folders.task_maker import make_task


def build_line(target: Path, *extras: str) -> GymLine:
    return GymLine("e2e_collect_rollouts", {"output": None}, [], [str(target)], extras)


def test_the_rows_lie_beside_the_output_and_the_environment_gets_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_task(tmp_path / "tasks" / "one", "")
    line = place_task_folders(build_line(tmp_path / "tasks", "+network=none", "+other=1"))
    assert line.names == ()
    assert line.values["resources_server"] == ("task_folders",)
    assert json.loads((tmp_path / "results" / "tasks_tasks.jsonl").read_text())["task_id"] == "one"
    place = "++task_folders.resources_servers.task_folders"
    assert list(line.extras) == [
        f'{place}.folder="{tmp_path}/tasks"',
        f'{place}.network="none"',
        '++input_jsonl_fpath="results/tasks_tasks.jsonl"',
        '++output_jsonl_fpath="results/tasks.jsonl"',
        "+other=1",
    ]


def test_folders_that_are_refused_are_told_at_the_start_and_in_the_notes_of_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_task(tmp_path / "tasks" / "one")
    make_task(tmp_path / "tasks" / "two", without=("tests/test.sh",))
    line = place_task_folders(build_line(tmp_path / "tasks"))
    counted = "1 of 2 task folders are refused (1 missing_tests)"
    assert capsys.readouterr().err.startswith(f"gym: {counted}. two: ")
    assert f'++input_notes=["{counted}: `gym dataset validate` says why"]' in line.extras


@pytest.mark.parametrize(
    ("given", "provider"),
    [
        ("docker", {"docker": {}}),
        ("{podman: {}, default_metadata: {team: gym}}", {"podman": {}, "default_metadata": {"team": "gym"}}),
        ("{default_metadata: {team: gym}, podman: {}}", {"podman": {}, "default_metadata": {"team": "gym"}}),
        ("rootless", {"rootless": {}}),
        ("{rootless: {memory_mib: 99}}", {"rootless": {"memory_mib": 99}}),
    ],
)
def test_a_provider_that_is_named_replaces_that_of_the_environment(
    given: str, provider: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_task(tmp_path / "tasks" / "one")
    line = place_task_folders(build_line(tmp_path / "tasks", f"+sandbox_provider={given}"))
    overrides = [each for each in line.extras if each.startswith("++task_folders.")]
    config = load(["+config_paths=[resources_servers/task_folders/configs/task_folders.yaml]", *overrides])
    (server,) = config.servers
    assert server.config["sandbox_provider"] == provider


def test_the_folder_of_an_environment_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    line = build_line(tmp_path)
    assert place_task_folders(line) is line


def test_terms_name_the_provider_and_the_network() -> None:
    assert read_terms({"sandbox_provider": {"docker": {}}, "network": "none"}).provider == "docker"
    assert read_terms({}).provider == "rootless"
    with pytest.raises(ConfigError, match="runs no task folders"):
        read_terms({"sandbox_provider": {"local": {}}})
    with pytest.raises(ConfigError, match="can be none"):
        read_terms({"network": "host"})


def test_terms_name_the_limits_that_tasks_run_without() -> None:
    assert read_terms({"unlimited": ["cpus", "storage_mb"]}).unlimited == {"cpus", "storage_mb"}
    for wrong in (["gpus"], "cpus", 3):
        with pytest.raises(ConfigError, match="can be a list of cpus, memory_mb, storage_mb"):
            read_terms({"unlimited": wrong})


@pytest.mark.parametrize(
    ("agent", "allowed", "is_allowed"),
    [
        (None, ["simple_agent"], True),
        (None, ["claude_code"], False),
        ("external_agent/claude_code", ["claude_code"], True),
        ("external_agent/codex", ["claude_code", "simple_agent"], False),
        ("oracle/nop", [], True),
    ],
)
def test_a_dataset_names_the_agents_that_may_play_it(
    agent: str | None, allowed: list[str], is_allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_task(tmp_path / "tasks" / "one")
    text = f'[dataset]\nname = "org/set"\n[gym]\nallowed_agents = {allowed}\n'
    (tmp_path / "tasks" / "dataset.toml").write_text(text)
    line = build_line(tmp_path / "tasks")
    line = replace(line, values={**line.values, "agent_type": agent})
    if is_allowed:
        assert place_task_folders(line).values["resources_server"] == ("task_folders",)
    else:
        with pytest.raises(ConfigError, match="does not allow the agent"):
            place_task_folders(line)
