"""A folder of records for each test, and the container engines of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from responses_api_agents.external_agent.tests.agents import AgentGym
from tests.sandbox.container_engines import docker_on_podman, working_podman


@pytest.fixture(autouse=True)
def records(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentGym, "records", tmp_path_factory.mktemp("records"), raising=False)


@pytest.fixture(scope="session")
def podman_variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with working_podman(tmp_path_factory.mktemp("podman")) as variables:
        yield variables


@pytest.fixture
def podman(podman_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the provider podman, which works in this test."""
    for variable, value in podman_variables.items():
        monkeypatch.setenv(variable, value)
    return "podman"


@pytest.fixture
def docker(
    podman_variables: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """The name of the provider docker, which works in this test by docker's command line on podman."""
    with docker_on_podman(tmp_path_factory.mktemp("docker"), podman_variables) as variables:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        yield "docker"
