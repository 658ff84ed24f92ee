"""Container engines of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.container_engines import docker_on_podman, working_podman


@pytest.fixture(scope="session")
def podman_variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with working_podman(tmp_path_factory.mktemp("podman")) as variables:
        yield variables


@pytest.fixture(scope="session")
def docker_variables(
    tmp_path_factory: pytest.TempPathFactory, podman_variables: dict[str, str]
) -> Iterator[dict[str, str]]:
    with docker_on_podman(tmp_path_factory.mktemp("docker"), podman_variables) as variables:
        yield variables


@pytest.fixture(params=["podman", "docker"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a provider whose command line works in this test."""
    name: str = request.param
    for variable, value in request.getfixturevalue(f"{name}_variables").items():
        monkeypatch.setenv(variable, value)
    return name
