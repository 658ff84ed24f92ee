"""The configurations of the model servers compose, and their servers start with them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym import PARENT_DIR
from nemo_gym.config.loading import load
from nemo_gym.config.options import option_faults
from nemo_gym.engines.engine_model import EngineModel

FOLDER = PARENT_DIR / "responses_api_models"
FILES = sorted(FOLDER.glob("*/configs/**/*.yaml"))
FRAGMENTS = {"vllm_model_supply_prefix": "vllm_model/configs/vllm_model.yaml"}
"""Configurations that are added after another one."""
POLICY = ("+policy_base_url=http://127.0.0.1:9/v1", "+policy_api_key=key", "+policy_model_name=mock")


def overrides_of(implementation: str, folder: Path) -> list[str]:
    """The values that a configuration requires from its user."""
    block = f"++policy_model.responses_api_models.{implementation}"
    recordings = folder / "recordings.jsonl"
    recordings.write_text('{"request": {"input": "x"}, "answer": "y"}\n')
    left: dict[str, str] = {
        "azure_openai_model": f"{block}.default_query.api-version=preview",
        "replay_model": f"{block}.recordings=[{recordings}]",
    }
    return [left[implementation]] if implementation in left else []


def server_class_of(implementation: str) -> Any:
    module = import_module(f"responses_api_models.{implementation}.app")
    classes = [
        value for value in vars(module).values() if isinstance(value, type) and issubclass(value, EngineModel)
    ]
    return next(found for found in classes if found.__module__ == module.__name__)


def is_model_server(value: object) -> bool:
    return isinstance(value, dict) and "responses_api_models" in value


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_server_starts_from_its_configuration(file: Path, tmp_path: Path) -> None:
    implementation = file.relative_to(FOLDER).parts[0]
    before = f"{FOLDER / FRAGMENTS[file.stem]}," if file.stem in FRAGMENTS else ""
    words = [f"+config_paths=[{before}{file}]", *POLICY, *overrides_of(implementation, tmp_path)]
    if file.parent.name == "OpenAI":
        [name] = yaml.safe_load(file.read_text())
        words.append(f"++{name}.responses_api_models.openai_model.openai_api_key=key")
    config = load(words).data
    [(name, server)] = [(name, value) for name, value in config.items() if is_model_server(value)]
    block = server["responses_api_models"][implementation]
    server = server_class_of(implementation).standalone(**{**block, "name": name})
    assert "/v1/responses" in {route.path for route in server.setup_webserver().routes}


def test_every_folder_has_a_configuration_of_its_name_and_a_readme() -> None:
    folders = {path.parent for path in FOLDER.glob("*/app.py")}
    assert {file.stem for file in FILES} >= {folder.name for folder in folders}
    assert [folder.name for folder in folders if not (folder / "README.md").is_file()] == []


@pytest.mark.parametrize("implementation", sorted(path.parent.name for path in FOLDER.glob("*/app.py")))
def test_an_unknown_option_is_refused(implementation: str) -> None:
    config_type = server_class_of(implementation).model_fields["config"].annotation
    faults = option_faults(
        config_type, {"no_such_key": 1}, ("name", "responses_api_models", implementation), ""
    )
    assert any("has no option 'no_such_key'" in fault.message for fault in faults)
