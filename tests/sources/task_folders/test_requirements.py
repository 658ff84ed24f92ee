"""The fields of a task that a run cannot honour, by name and by reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders import requirements
from nemo_gym.sources.task_folders.folder import FolderTask, load_folder
from nemo_gym.sources.task_folders.requirements import (
    LIMITS,
    Terms,
    check_provider,
    find_refusals,
    list_deviations,
)
from tests.sources.task_folders.task_maker import OFFLINE, make_task

CASES = {
    "windows": f'{OFFLINE}os = "windows"\n',
    "gpus": f"{OFFLINE}gpus = 1\n",
    "tpu": f'{OFFLINE}tpu = {{ type = "v6e", topology = "2x2" }}\n',
    "mcp_sse": f'{OFFLINE}mcp_servers = [{{ name = "a", url = "http://x" }}]\n',
    "mcp_stdio": f'{OFFLINE}mcp_servers = [{{ name = "a", transport = "stdio", command = "x" }}]\n',
    "skills": f'{OFFLINE}skills_dir = "/skills"\n',
    "network_public": "",
    "network_allowlist": '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["x.org"]\n',
    "host_variable": f'{OFFLINE}env = {{ A = "${{SECRET}}" }}\n',
    "storage_mb": f"{OFFLINE}storage_mb = 9\n",
    "compose": f'{OFFLINE}[[verifier.collect]]\ncommand = "x"\nservice = "db"\n',
}


@pytest.mark.parametrize("reason", CASES)
def test_a_field_is_refused_by_its_reason(reason: str, tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task", CASES[reason])
    (folder / "tests" / "test.bat").touch()
    found = find_refusals(load_folder(folder), Terms())
    assert [each.reason for each in found] == [reason]
    assert found[0].field


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("environment/docker-compose.yaml", "services: {}", "compose"),
        ("trajectory.json", "{}", "prior_trajectory"),
        ("environment/Dockerfile", "FROM python:3.12", "dockerfile"),
    ],
)
def test_a_file_is_refused_by_its_reason(file: str, text: str, reason: str, tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    (folder / file).write_text(text)
    assert [each.reason for each in find_refusals(load_folder(folder), Terms())] == [reason]


def test_an_image_of_an_engine_needs_one_or_a_dockerfile(tmp_path: Path) -> None:
    settings = f'{OFFLINE}docker_image = "org/x:1"\n'
    bare = load_folder(make_task(tmp_path / "bare", settings, without=("environment/Dockerfile",)))
    assert [each.reason for each in find_refusals(bare, Terms())] == ["docker_image"]
    assert find_refusals(bare, Terms("docker")) == []
    both = load_folder(make_task(tmp_path / "both", settings))
    assert find_refusals(both, Terms()) == []
    assert list_deviations(both, Terms()) == ["docker_image = 'org/x:1' is made anew of the Dockerfile"]


def test_artifacts_that_nobody_keeps_are_stated(tmp_path: Path) -> None:
    task = load_folder(make_task(tmp_path / "task", f'artifacts = ["/tmp/x"]\n{OFFLINE}'))
    assert list_deviations(task, Terms(keeps_artifacts=True)) == []
    (said,) = list_deviations(task, Terms())
    assert said.startswith("artifacts are for a separate verifier only")


def test_what_is_allowed_is_accepted_and_stated(tmp_path: Path) -> None:
    public = load_folder(make_task(tmp_path / "public", '[environment]\n[agent]\nuser = "worker"\n'))
    terms = Terms(network="none")
    assert find_refusals(public, terms) == []
    assert list_deviations(public, terms) == [
        "network_mode = 'public' runs without a network",
        "other users than root have root's rights in their sandbox",
    ]
    secret = load_folder(
        make_task(tmp_path / "secret", f'{OFFLINE}[verifier]\nenv = {{ A = "${{MINE}}" }}\n')
    )
    assert find_refusals(secret, Terms(variables=frozenset({"MINE"}))) == []


LIMITED = f"""{OFFLINE}cpus = 2
memory_mb = 64
storage_mb = 9
[verifier.environment]
network_mode = "no-network"
cpus = 1
"""


def refused(task: FolderTask, terms: Terms) -> list[tuple[str, str]]:
    return [(each.field, each.reason) for each in find_refusals(task, terms)]


def test_a_limit_that_a_provider_cannot_enforce_is_refused_or_left_out_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = load_folder(make_task(tmp_path / "task", LIMITED))
    for name in ("can_limit_cpus", "can_limit_memory"):
        monkeypatch.setattr(requirements, name, lambda: True)
    storage = ("environment.storage_mb", "storage_mb")
    assert refused(task, Terms()) == refused(task, Terms("docker")) == [storage]
    for name in ("can_limit_cpus", "can_limit_memory"):
        monkeypatch.setattr(requirements, name, lambda: False)
    assert refused(task, Terms("docker")) == [storage]
    assert refused(task, Terms()) == [
        ("environment.cpus", "cpus"),
        ("environment.memory_mb", "memory_mb"),
        storage,
    ]
    terms = Terms(unlimited=frozenset(LIMITS))
    assert refused(task, terms) == []
    assert list_deviations(task, terms) == [f"{name} is not limited" for name in LIMITS]


def test_a_provider_that_no_task_can_have_is_refused_with_those_that_it_can() -> None:
    check_provider("rootless")
    for name, said in {"rotless": "There is no sandbox", "local": "runs no task folders"}.items():
        with pytest.raises(ConfigError, match=said) as refused:
            check_provider(name)
        assert str(refused.value.failure.remedy).endswith("one of apptainer, docker, podman, rootless.")


def test_a_copy_of_a_missing_file_is_refused(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task", environment__Dockerfile="FROM debian\nCOPY gone.txt /x\n")
    (found,) = find_refusals(load_folder(folder), Terms())
    assert (found.field, found.reason) == ("environment/Dockerfile", "dockerfile")
    assert found.message == "line 2: 'gone.txt' is not in the folder of the Dockerfile"
    assert find_refusals(load_folder(folder), Terms("docker")) == []
