"""The fields of a task that a run cannot honour, by name and by reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.sources.task_folders.folder import load_folder
from nemo_gym.sources.task_folders.requirements import (
    Terms,
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


def test_what_is_allowed_is_accepted_and_stated(tmp_path: Path) -> None:
    public = load_folder(
        make_task(tmp_path / "public", '[environment]\ncpus = 2\n[agent]\nuser = "worker"\n')
    )
    terms = Terms(network="none")
    assert find_refusals(public, terms) == []
    assert list_deviations(public, terms) == [
        "network_mode = 'public' runs without a network",
        "other users than root have root's rights in their sandbox",
        "cpus is not limited",
    ]
    secret = load_folder(
        make_task(tmp_path / "secret", f'{OFFLINE}[verifier]\nenv = {{ A = "${{MINE}}" }}\n')
    )
    assert find_refusals(secret, Terms(variables=frozenset({"MINE"}))) == []
