"""`ng_schema`: the JSON Schema of an environment's task rows."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class SchemaKeys(Keys):
    entrypoint: str = Field(description="The environment: resources_servers/<name>.")


COMMAND = Command(
    name="ng_schema",
    summary="Print the JSON Schema of an environment's task rows, which its task_data.py declares.",
    example="ng_schema +entrypoint=resources_servers/mcqa",
    keys=SchemaKeys,
)


def print_schema(keys: SchemaKeys) -> int:
    from nemo_gym.authoring.implementations import find_implementation
    from nemo_gym.datasets.task_schemas import load_task_data_schema
    from nemo_gym.failures import ConfigError

    implementation = find_implementation(keys.entrypoint, Path.cwd())
    schema = load_task_data_schema(implementation.folder)
    if schema is None:
        raise ConfigError(
            f"{implementation.entrypoint} has no task_data.py",
            code="no_task_data",
            remedy="Declare the fields of its rows there, as the model TaskData.",
        )
    print(json.dumps(schema.json_schema(), indent=2))
    return ExitCode.COMPLETE


main = COMMAND.entry_point(print_schema)
