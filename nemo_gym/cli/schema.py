"""`ng_schema`: the JSON Schema of an environment's task rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel, Field

from nemo_gym.cli.command import Command, ExitCode, Keys

TASK_DATA_FILE = "task_data.py"
"""The module beside an environment's `app.py` that declares the fields of its rows."""
TASK_DATA_CLASS = "TaskData"


class SchemaKeys(Keys):
    entrypoint: str = Field(description="The environment: resources_servers/<name>.")


COMMAND = Command(
    name="ng_schema",
    summary=f"Print the JSON Schema of an environment's task rows, which its {TASK_DATA_FILE} declares.",
    example="ng_schema +entrypoint=resources_servers/mcqa",
    keys=SchemaKeys,
)


def print_schema(keys: SchemaKeys) -> int:
    from nemo_gym.authoring.implementations import find_implementation
    from nemo_gym.failures import ConfigError
    from nemo_gym.processes.worker_main import load_file

    implementation = find_implementation(keys.entrypoint, Path.cwd())
    file = implementation.folder / TASK_DATA_FILE
    if not file.is_file():
        raise ConfigError(
            f"{implementation.entrypoint} has no {TASK_DATA_FILE}",
            code="no_task_data",
            remedy=f"Declare the fields of its rows there, as the model {TASK_DATA_CLASS}.",
        )
    sys.path[:0] = [str(implementation.folder), str(implementation.root)]
    model = getattr(load_file("task_data", str(file)), TASK_DATA_CLASS, None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError(f"{file} declares no model {TASK_DATA_CLASS}", code="no_task_data")
    print(json.dumps(model.model_json_schema(), indent=2))
    return ExitCode.COMPLETE


main = COMMAND.entry_point(print_schema)
