"""Names of gyms of one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.discovery_files import (
    DISCOVERY_FILE,
    NO_NAME,
    discovery_names,
    discovery_path,
    name_to_read,
    read_discovery,
    run_in,
)
from nemo_gym.failures import ConfigError


def write(folder: Path, *names: str) -> None:
    for name in names:
        discovery_path(folder, name).write_text(f"_ng_run: {{pid: 1, head: of-{name}}}")


def test_the_gym_without_a_name_has_the_file_that_other_tools_read(tmp_path: Path) -> None:
    assert discovery_path(tmp_path) == tmp_path / DISCOVERY_FILE
    assert discovery_path(tmp_path, "2") == tmp_path / ".nemo_gym_global_config.2.yaml"


def test_a_folder_lists_its_names(tmp_path: Path) -> None:
    assert discovery_names(tmp_path) == []
    write(tmp_path, "math", "2", NO_NAME)
    (tmp_path / ".nemo_gym_global_config.not a name.yaml").touch()
    assert discovery_names(tmp_path) == [NO_NAME, "2", "math"]
    assert run_in(read_discovery(tmp_path, "math"))["head"] == "of-math"


def test_without_a_name_the_gym_without_one_is_used_or_else_the_only_one(tmp_path: Path) -> None:
    assert name_to_read(tmp_path) == NO_NAME
    write(tmp_path, "math")
    assert name_to_read(tmp_path) == "math"
    write(tmp_path, NO_NAME)
    assert name_to_read(tmp_path) == NO_NAME
    assert name_to_read(tmp_path, "math") == "math"


def test_several_names_are_an_error_with_the_choices(tmp_path: Path) -> None:
    write(tmp_path, "math", "2")
    with pytest.raises(ConfigError, match="several gyms run") as caught:
        name_to_read(tmp_path)
    assert "+discovery_name=2, +discovery_name=math" in str(caught.value)


@pytest.mark.parametrize(("names", "remedy"), [(["math"], "+discovery_name=math"), ([], "Leave")])
def test_an_unknown_name_is_an_error(tmp_path: Path, names: list[str], remedy: str) -> None:
    write(tmp_path, *names)
    with pytest.raises(ConfigError, match="no gym with the discovery name 'maths'") as caught:
        name_to_read(tmp_path, "maths")
    assert remedy in str(caught.value)
