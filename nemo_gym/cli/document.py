"""The page of all commands, made from what they declare.

`python -m nemo_gym.cli.document docs/commands.md` brings it up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from nemo_gym.cli import verbs
from nemo_gym.cli.command import Command, ConfigCommand
from nemo_gym.config.document import describe_default, describe_type, table_row

_INTRODUCTION = """\
# Commands

Made from the commands' own declarations by `python -m nemo_gym.cli.document docs/commands.md`; `<command> --help` says
the same. `ng <verb>` is another way to write `ng_<verb>`, and dashes in a verb are underscores.

A key is given as `+key=value`, `key=value`, `--key value` or `--key=value`, a true one as `--key`; keys of a command
may stand in `env.yaml`, too. Commands that work on a configuration take every key of one
([configuration](configuration.md)). Those with a key `json` print results and errors as JSON when it is true.\
"""


def commands() -> list[Command[Any]]:
    """Every command, by name."""
    return [import_module(f"nemo_gym.cli.{verb}").COMMAND for verb in verbs()]


def render_page() -> str:
    """The text of `docs/commands.md`."""
    listed = [f"| [`{command.name}`](#{command.name}) | {command.summary} |" for command in commands()]
    overview = "\n".join(["| command | what it does |", "|---|---|", *listed])
    return "\n\n".join([_INTRODUCTION, overview, *map(_render, commands())]) + "\n"


def _render(command: Command[Any]) -> str:
    takes = "Works on a configuration.\n\n" if isinstance(command, ConfigCommand) else ""
    codes = "; ".join(f"{int(code)} {meaning}" for code, meaning in command.exit_codes.items())
    parts = [f"## {command.name}\n{command.summary}", f"{takes}```bash\n{command.example}\n```"]
    rows = list(_rows(command.keys.model_fields))
    if rows:
        parts.append("\n".join(["| key | value | meaning |", "|---|---|---|", *rows]))
    parts.append(f"Exit codes: {codes}.")
    return "\n\n".join(parts)


def _rows(fields: dict[str, FieldInfo]) -> Iterator[str]:
    for name, field in fields.items():
        value = f"{describe_type(field.annotation)}, {describe_default(field)}"
        yield table_row(f"`{field.alias or name}`", value, field.description or "")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")
