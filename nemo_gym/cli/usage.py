"""The text of `--help`: purpose, keys with type, default and meaning, an example, exit codes."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from nemo_gym.cli.command import Command, ConfigCommand
from nemo_gym.config.document import describe_default, describe_type
from nemo_gym.config.keys import GlobalKeys, is_pointless
from nemo_gym.tables import hang_text, wrap_phrases

WIDEST = 100
"""Columns of the text on a wide terminal, and in a pipe."""
_ARGUMENT = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+""")
"""An argument of a command line, with its quotes."""
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
        *_list_keys(command),
        textwrap.fill(GRAMMAR, _width()),
        _section("example", (line for each in command.example.splitlines() for line in _break_line(each))),
        _section("exit codes", _exit_codes(command.exit_codes)),
    ]
    return "\n\n".join(section for section in sections if section)


def render_keys(command: Command[Any], typed: str) -> str:
    """Return the output of a short command `typed` with `+help=true`: the keys behind its options."""
    title = f"{typed}: all keys, written as +key=value. --help lists those that have an option."
    return "\n\n".join([textwrap.fill(title, _width()), *filter(None, _list_keys(command))])


def _list_keys(command: Command[Any]) -> Iterator[str]:
    yield _section("keys", _describe(command.fields))
    if isinstance(command, ConfigCommand):
        used = {name: field for name, field in GlobalKeys.model_fields.items() if not is_pointless(field)}
        yield _section("keys of every configuration (docs/configuration.md)", _describe(used))


def _describe(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    for name, field in fields.items():
        form = f"{field.alias or name}  ({describe_type(field.annotation)}, {describe_default(field)})"
        yield from textwrap.wrap(form, _width() - 2, subsequent_indent="    ")
        yield from textwrap.wrap(
            field.description or "", _width() - 2, initial_indent="    ", subsequent_indent="    "
        )


def _break_line(line: str) -> Iterator[str]:
    """Yield a command line in parts that fit, each but the last with a backslash at its end."""
    # Two columns are the indentation of a section, four that of a continued line, and two those of the backslash.
    first, *others = wrap_phrases(_ARGUMENT.findall(line), _width() - 8, gap=1)
    parts = [first, *(f"    {part}" for part in others)]
    yield from (f"{part} \\" for part in parts[:-1])
    yield parts[-1]


def _exit_codes(codes: Mapping[int, str]) -> Iterator[str]:
    for code, meaning in codes.items():
        yield from hang_text(str(int(code)), meaning, titles=5, width=_width() - 2)


def _width() -> int:
    return min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)


def _section(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"{title}:\n{body}" if body else ""
