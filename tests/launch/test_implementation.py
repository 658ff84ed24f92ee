"""The class of a server is the one whose `run_webserver()` its file calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.failures import ConfigError
from nemo_gym.launch._implementation import load_server_class
from tests.config.small_gym import write_gym


def test_the_class_and_its_options_are_found_and_nothing_is_served() -> None:
    loaded = load_server_class(PARENT_DIR / "resources_servers" / "mcqa" / "app.py")
    assert loaded.__name__ == "MCQAResourcesServer"
    assert "grading_mode" in loaded.config_class().model_fields


@pytest.mark.parametrize("source", ["x = 1\n", "class A: ...\nif False:\n    A.run_webserver()\n"])
def test_a_file_without_a_server_of_this_gym_is_refused(source: str, tmp_path: Path) -> None:
    app = write_gym(tmp_path) / "resources_servers" / "weather" / "app.py"
    app.write_text(source)
    with pytest.raises(ConfigError, match="does not end with") as caught:
        load_server_class(app)
    assert caught.value.failure.code == "not_inline"
