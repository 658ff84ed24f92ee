"""`ng_schema`: the JSON Schema of an environment's task rows, or of a form of the gym's rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.rows.fields import Form


class SchemaKeys(Keys):
    entrypoint: str | None = Field(None, description="The environment: resources_servers/<name>.")
    row: Form | None = Field(
        None, description="A form of the gym's rows (docs/rows.md), instead of an environment."
    )


COMMAND = Command(
    name="ng_schema",
    summary="Print the JSON Schema of an environment's task rows (its task_data.py), or of the gym's rows.",
    example="ng_schema +entrypoint=resources_servers/mcqa",
    keys=SchemaKeys,
)


def print_schema(keys: SchemaKeys) -> int:
    print(json.dumps(_build_schema(keys), indent=2))
    return ExitCode.COMPLETE


def _build_schema(keys: SchemaKeys) -> dict[str, Any]:
    """Return the schema. Raises `ConfigError` unless one of the two is chosen."""
    from nemo_gym.failures import ConfigError

    if keys.entrypoint is not None and keys.row is None:
        return _read_task_schema(keys.entrypoint)
    if keys.row is not None and keys.entrypoint is None:
        from nemo_gym.rows.schema import build_row_schema

        return build_row_schema(keys.row)
    raise ConfigError(
        "one of +entrypoint and +row is needed",
        code="no_schema",
        remedy=f"Write +entrypoint=resources_servers/<name>, or +row=<{', '.join(Form)}>.",
    )


def _read_task_schema(entrypoint: str) -> dict[str, Any]:
    from nemo_gym.authoring.implementations import find_implementation
    from nemo_gym.failures import ConfigError
    from nemo_gym.resources.task_schemas import load_task_data_schema

    implementation = find_implementation(entrypoint, Path.cwd())
    schema = load_task_data_schema(implementation.folder)
    if schema is None:
        raise ConfigError(
            f"{implementation.entrypoint} has no task_data.py",
            code="no_task_data",
            remedy="Declare the fields of its rows there, as the model TaskData. Without it, a run checks rows by the "
            f"bodies of `seed_session` and `verify` in its app.py.{_describe_example(implementation.folder)}",
        )
    return schema.json_schema()


def _describe_example(folder: Path) -> str:
    """Return the fields of an environment's first example row as a sentence; nothing without one."""
    from nemo_gym.json_objects import object_in
    from nemo_gym.rollouts.plan.dataset import read_lines
    from nemo_gym.rows.parts import read_task_data

    example = folder / "data" / "example.jsonl"
    line = next(read_lines(example), None) if example.is_file() else None
    row = object_in(line.content) if line is not None else None
    return f" An example is {example}, whose rows have {', '.join(read_task_data(row))}." if row else ""


main = COMMAND.entry_point(print_schema)
