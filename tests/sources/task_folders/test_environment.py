"""The environment of task folders. `tests/e2e/test_task_folders.py` runs it with agents; this is its configuration."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from nemo_gym.sources.task_folders.environment import TaskFoldersConfig


def test_a_configuration_names_the_folder_and_reads_no_variable_by_default() -> None:
    block = {
        "host": "127.0.0.1",
        "port": 1,
        "entrypoint": "app.py",
        "name": "task_folders",
        "domain": "coding",
    }
    config = TaskFoldersConfig.model_validate({**block, "folder": "/tasks"})
    assert (config.task_variables, config.network, config.build_network) == ([], None, False)
    assert config.sandbox_provider == {"rootless": {}}
    with pytest.raises(ValidationError, match="folder"):
        TaskFoldersConfig.model_validate(block)
