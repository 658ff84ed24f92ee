"""The text of `--help`: purpose, keys with type, default and meaning, an example, exit codes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from nemo_gym.cli.command import Command, ConfigCommand
from nemo_gym.config.document import describe_default, describe_type
from nemo_gym.config.keys import GlobalKeys, is_pointless

WIDTH = 100
GRAMMAR = """\
Write keys as +key=value, key=value, --key value or --key=value, and --key alone for true. `+` adds a key, `++` adds or
replaces it, `~key` deletes it. Lists are [a,b], mappings {a: 1}. Quote arguments for the shell, and quote text with
special characters again: '+key="a=b"'."""


def render_help(command: Command[Any]) -> str:
    """Return the output of `<command> --help`."""
    sections = [
        f"{command.name}: {command.summary}",
        f"usage: {command.name} [+key=value ...]",
        _section("keys", _describe(command.keys.model_fields)),
    ]
    if isinstance(command, ConfigCommand):
        used = {name: field for name, field in GlobalKeys.model_fields.items() if not is_pointless(field)}
        sections.append(_section("keys of every configuration (docs/configuration.md)", _describe(used)))
    sections += [
        GRAMMAR,
        _section("example", command.example.splitlines()),
        _section("exit codes", [f"{int(code)}  {meaning}" for code, meaning in command.exit_codes.items()]),
    ]
    return "\n\n".join(section for section in sections if section)


def _describe(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    for name, field in fields.items():
        yield f"{field.alias or name}  ({describe_type(field.annotation)}, {describe_default(field)})"
        yield from textwrap.wrap(
            field.description or "", WIDTH, initial_indent="    ", subsequent_indent="    "
        )


def _section(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"{title}:\n{body}" if body else ""
