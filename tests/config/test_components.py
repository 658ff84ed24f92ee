"""Names of components, their roots in order of precedence, and what is wrong with a name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym import paths
from nemo_gym.config.components import (
    AGENT,
    BENCHMARK,
    ENVIRONMENT,
    MODEL,
    RESOURCES_SERVER,
    ComponentKind,
    find_components,
    find_config,
    find_config_at,
)
from nemo_gym.config.problems import Problems
from nemo_gym.paths import EXTRA_ROOTS_VARIABLE
from tests.config.roots import write_root


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv(EXTRA_ROOTS_VARIABLE, raising=False)
    return here


def found(kind: ComponentKind, name: str, here: Path) -> str:
    problems = Problems()
    file = find_config(kind, name, here, problems)
    assert not problems.found
    assert file is not None
    return file.text


def problem(kind: ComponentKind, name: str, here: Path) -> str:
    problems = Problems()
    assert find_config(kind, name, here, problems) is None
    (only,) = problems.found
    return str(only)


@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [
        (ENVIRONMENT, "game", "environments/game/config.yaml"),
        (BENCHMARK, "suite/hard", "benchmarks/suite/hard.yaml"),
        (RESOURCES_SERVER, "server", "resources_servers/server/configs/server.yaml"),
        (RESOURCES_SERVER, "server/other", "resources_servers/server/configs/other.yaml"),
        (MODEL, "provider/Team/big", "responses_api_models/provider/configs/Team/big.yaml"),
        (AGENT, "single", "responses_api_agents/single/configs/unlike.yaml"),
        (MODEL, "vllm_model", "responses_api_models/vllm_model/configs/vllm_model.yaml"),
    ],
)
def test_a_name_means_a_file(here: Path, kind: ComponentKind, name: str, file: str) -> None:
    write_root(
        here,
        "environments/game",
        "benchmarks/suite/hard.yaml",
        "resources_servers/server",
        "resources_servers/server/configs/other.yaml",
        "responses_api_models/provider/configs/Team/big.yaml",
        "responses_api_agents/single/configs/unlike.yaml",
    )
    assert found(kind, name, here) == file


def test_one_s_own_folder_hides_extra_roots_and_these_hide_the_gym(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (write_root(tmp_path / name, "resources_servers/mcqa") for name in ("first", "second"))
    own = "resources_servers/mcqa/configs/mcqa.yaml"
    assert found(RESOURCES_SERVER, "mcqa", here) == own
    monkeypatch.setenv(EXTRA_ROOTS_VARIABLE, os.pathsep.join([str(first), str(second)]))
    (extra,) = (each for each in find_components(RESOURCES_SERVER, here) if each.name == "mcqa")
    assert extra.folder == first / "resources_servers" / "mcqa"
    write_root(here, "resources_servers/mcqa")
    (mine,) = (each for each in find_components(RESOURCES_SERVER, here) if each.name == "mcqa")
    assert mine.folder == here / "resources_servers" / "mcqa"


def test_a_misspelt_name_is_a_problem_with_the_nearest_one(here: Path) -> None:
    assert problem(RESOURCES_SERVER, "mcqb", here) == (
        "There is no resources server 'mcqb'. Did you mean 'mcqa'? See: gym list resources-servers"
    )
    assert problem(BENCHMARK, "../mcqa", here).startswith("There is no benchmark '../mcqa'.")


def test_several_configurations_without_a_principal_one_are_a_problem_with_the_choices(here: Path) -> None:
    write_root(here, "benchmarks/suite/easy.yaml", "benchmarks/suite/hard.yaml")
    (here / "benchmarks" / "suite" / "manifest.yaml").write_text("name: suite\n")
    assert problem(BENCHMARK, "suite", here).endswith("Choose one: suite/easy, suite/hard.")


def test_two_installed_packages_with_one_name_are_a_problem(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tuple(write_root(tmp_path / name, "environments/shared") for name in ("one", "two"))
    monkeypatch.setattr("nemo_gym.config.components.find_installed_roots", lambda: packages)
    text = problem(ENVIRONMENT, "shared", here)
    assert str(packages[0]) in text
    assert str(packages[1]) in text
    monkeypatch.setenv(EXTRA_ROOTS_VARIABLE, str(packages[1]))
    assert found(ENVIRONMENT, "shared", here) == "environments/shared/config.yaml"


def test_an_entry_point_declares_the_root_of_a_package(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    package = write_root(site / "their_environments", "environments/theirs")
    (package / "__init__.py").touch()
    metadata = site / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: theirs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[nemo_gym.roots]\ntheirs = their_environments\n")
    monkeypatch.syspath_prepend(str(site))
    paths.find_installed_roots.cache_clear()
    try:
        assert found(ENVIRONMENT, "theirs", here) == "environments/theirs/config.yaml"
        assert paths.find_file("environments/theirs/config.yaml", here) is not None
    finally:
        paths.find_installed_roots.cache_clear()


def test_a_renamed_component_is_a_problem_with_the_new_name(here: Path) -> None:
    folder = here / "environments" / "former"
    folder.mkdir(parents=True)
    (folder / ".nemo_gym_tombstone").write_text("present\n")
    assert problem(ENVIRONMENT, "former", here).endswith("It is 'present'.")


def test_a_path_means_the_configuration_in_its_folder(here: Path, tmp_path: Path) -> None:
    write_root(tmp_path / "elsewhere", "resources_servers/far")
    problems = Problems()
    far = find_config_at("../elsewhere/resources_servers/far", problems)
    assert far is not None
    assert far.path.name == "far.yaml"
    assert far.root.resolve() == tmp_path / "elsewhere"
    assert find_config_at("../elsewhere", problems) is None
    assert find_config_at("./nothing", problems) is None
    assert [str(each) for each in problems.found] == [
        "../elsewhere has no configuration. It needs config.yaml or configs/elsewhere.yaml.",
        "There is no file or folder './nothing'.",
    ]
