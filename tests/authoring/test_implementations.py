from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.authoring.implementations import find_implementation, find_implementations
from nemo_gym.failures import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for entrypoint in ("resources_servers/mine", "resources_servers/mcqa", "responses_api_agents/mine"):
        (tmp_path / entrypoint).mkdir(parents=True)
        (tmp_path / entrypoint / "app.py").touch()
    (tmp_path / "resources_servers" / "no_app").mkdir()
    return tmp_path


def test_a_project_s_implementations_stand_beside_ours_and_before_their_namesakes(project: Path) -> None:
    found = {each.entrypoint: each for each in find_implementations(project)}
    assert found["resources_servers/mine"].folder == project / "resources_servers" / "mine"
    assert found["resources_servers/mcqa"].folder == project / "resources_servers" / "mcqa"
    assert found["resources_servers/example_multi_step"].root == PARENT_DIR
    assert "resources_servers/no_app" not in found
    kinds = {each.kind for each in find_implementations(project, "responses_api_agents")}
    assert kinds == {"responses_api_agents"}


@pytest.mark.parametrize(
    "written",
    [
        "resources_servers/mine",
        "resources_servers/mine/",
        "resources_servers/mine/app.py",
        "./resources_servers/mine",
    ],
)
def test_one_is_named_by_its_folder(project: Path, written: str) -> None:
    found = find_implementation(written, project)
    assert (found.kind, found.name, found.root) == ("resources_servers", "mine", project)


def test_one_elsewhere_is_named_by_its_path(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    found = find_implementation(str(project / "resources_servers" / "mine"), elsewhere)
    assert found.root == project
    assert find_implementation("resources_servers/mcqa", elsewhere).root == PARENT_DIR


def test_a_name_is_enough_if_only_one_implementation_has_it(project: Path) -> None:
    assert find_implementation("mcqa", project).folder == project / "resources_servers" / "mcqa"


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("resources_servers/mime", "Did you mean 'mine'?"),
        ("mine", "Did you mean 'resources_servers/mine' or 'responses_api_agents/mine'?"),
        ("responses_api_agents/mcqa", "Did you mean 'resources_servers/mcqa'?"),
    ],
)
def test_an_unknown_implementation_is_an_error_with_similar_names(
    project: Path, written: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        find_implementation(written, project)
    assert caught.value.failure.remedy == remedy
