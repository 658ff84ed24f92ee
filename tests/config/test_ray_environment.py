"""The environment that Ray makes on every node, as users write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.keys import RayRuntimeEnv
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.ray_environment import (
    build_runtime_env,
    list_hidden_values,
    read_ray_environment,
    refuse_without_ray,
    secret_variables,
)
from nemo_gym.failures import ConfigError

SECRET = "a-secret-of-the-user"
WITH_SECRET = RayRuntimeEnv(env_vars={"A_CHOICE": "1", "HF_TOKEN": SECRET}, pip=["x"])


def environment_of(given: Any, folder: Path) -> RayRuntimeEnv | None:
    return read_ray_environment({"ray_runtime_env": given}, folder)


def test_a_configuration_without_the_key_has_none(tmp_path: Path) -> None:
    assert read_ray_environment({}, tmp_path) is None
    assert build_runtime_env(RayRuntimeEnv()) == {}


@pytest.mark.parametrize("name", ["ray.yaml", "ray.json"])
def test_a_file_says_the_same_as_a_mapping_and_paths_start_at_the_working_folder(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "a.whl").touch()
    (tmp_path / "requirements.txt").touch()
    given = {"pip": "requirements.txt", "working_dir": ".", "py_modules": ["module", "a.whl"]}
    (tmp_path / name).write_text(json.dumps(given))
    found = environment_of(given, tmp_path)
    assert found == environment_of(name, tmp_path)
    assert found is not None
    assert found.pip == str(tmp_path / "requirements.txt")
    assert found.working_dir == str(tmp_path)
    assert found.py_modules == [str(tmp_path / "module"), str(tmp_path / "a.whl")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pips": ["x"]}, "pips"),
        ({"conda": {"dependencies": []}}, "conda"),
        ({"env_vars": {"A": 1}}, r"env_vars\.A"),
        ({"env_vars": ["A"]}, "env_vars"),
        ({"pip": "none.txt"}, r"pip: there is no file none\.txt"),
        ({"pip": ["x"], "uv": ["x"]}, "has both pip and uv"),
        ({"excludes": ["*.bin"]}, "has excludes, but nothing is copied"),
        ({"working_dir": "s3://bucket/code.zip"}, r"working_dir: s3://bucket/code\.zip is no local path"),
        ({"working_dir": "none"}, "working_dir: none is not a folder"),
        ({"py_modules": ["none.whl"]}, r"py_modules: none\.whl is not a folder or a wheel"),
        ("none.yaml", "The file cannot be read"),
    ],
)
def test_an_environment_that_cannot_be_made_is_refused(given: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match=message):
        environment_of(given, tmp_path)


def test_all_problems_of_a_file_are_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "ray.yaml").write_text("working_dir: none\nuv: none.txt\n")
    with pytest.raises(ConfigErrors) as caught:
        environment_of("ray.yaml", tmp_path)
    assert [str(problem.where) for problem in caught.value.problems] == ["ray.yaml"] * 2
    (tmp_path / "ray.yaml").write_text("pip: [x]\nworkingdir: none\n")
    with pytest.raises(ConfigErrors, match=r"ray\.yaml:2:1: .*workingdir"):
        environment_of("ray.yaml", tmp_path)


def test_another_placement_refuses_the_key() -> None:
    refuse_without_ray({})
    with pytest.raises(ConfigError, match=r"has an effect with \+placement=ray only"):
        refuse_without_ray({"ray_runtime_env": {"pip": ["x"]}})


def test_ray_sees_no_variable_with_the_name_of_a_secret() -> None:
    assert build_runtime_env(WITH_SECRET) == {
        "pip": ["x"],
        "env_vars": {"A_CHOICE": "1"},
        "config": {"eager_install": False},
    }
    assert secret_variables(WITH_SECRET) == {"HF_TOKEN": SECRET}
    assert list_hidden_values(WITH_SECRET) == {SECRET}
