"""The text of `--help`: purpose, keys with type, default and meaning, an example, exit codes."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from nemo_gym.cli.command import Command, ConfigCommand
from nemo_gym.config.document import describe_default, describe_type
from nemo_gym.config.keys import GlobalKeys, is_pointless
from nemo_gym.tables import hanging

WIDEST = 100
"""Columns of the text on a wide terminal, and in a pipe."""
GRAMMAR = (
    "Write keys as +key=value, key=value, --key value or --key=value, and --key alone for true. `+` adds a key, `++` "
    "adds or replaces it, `~key` deletes it. Lists are [a,b], mappings {a: 1}. Quote arguments for the shell, and "
    "quote text with special characters again: '+key=\"a=b\"'."
)


def render_help(command: Command[Any]) -> str:
    """Return the output of `<command> --help`."""
    sections = [
        textwrap.fill(f"{command.name}: {command.summary}", _width()),
        f"usage: {command.name} [+key=value ...]",
        _section("keys", _describe(command.keys.model_fields)),
    ]
    if isinstance(command, ConfigCommand):
        used = {name: field for name, field in GlobalKeys.model_fields.items() if not is_pointless(field)}
        sections.append(_section("keys of every configuration (docs/configuration.md)", _describe(used)))
    sections += [
        textwrap.fill(GRAMMAR, _width()),
        _section("example", command.example.splitlines()),
        _section("exit codes", _exit_codes(command.exit_codes)),
    ]
    return "\n\n".join(section for section in sections if section)


def _describe(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    for name, field in fields.items():
        yield f"{field.alias or name}  ({describe_type(field.annotation)}, {describe_default(field)})"
        yield from textwrap.wrap(
            field.description or "", _width() - 2, initial_indent="    ", subsequent_indent="    "
        )


def _exit_codes(codes: Mapping[int, str]) -> Iterator[str]:
    for code, meaning in codes.items():
        yield from hanging(str(int(code)), meaning, titles=5, width=_width() - 2)


def _width() -> int:
    return min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)


def _section(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"{title}:\n{body}" if body else ""
