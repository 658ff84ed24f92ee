"""The documentation of configuration keys, for `--help` and `docs/configuration.md`.

`python -m nemo_gym.config.document docs/configuration.md` brings the table in that file up to date.
"""

from __future__ import annotations

import sys
import types
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nemo_gym.config.keys import GlobalKeys, is_pointless

BEGIN = "<!-- keys: made by nemo_gym.config.document -->"
END = "<!-- end of keys -->"


def describe_type(annotation: Any) -> str:
    """Return a type in plain words (`int`: whole number), without None, which the default implies."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return describe_type(annotation.__origin__)
    arguments = [each for each in typing.get_args(annotation) if each is not types.NoneType]
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(each) for each in arguments)
    if origin is typing.Literal:
        return " or ".join(repr(each) for each in arguments)
    if origin in (list, tuple):
        return f"list of {describe_type(arguments[0])}"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, str):
        return "text"
    names = {int: "whole number", float: "number", bool: "true or false", Any: "anything"}
    return names.get(annotation) or getattr(annotation, "__name__", str(annotation)).lower()


def describe_default(field: FieldInfo) -> str:
    """Return `required`, `optional` or the default value."""
    if field.is_required():
        return "required"
    default = field.default
    if default is PydanticUndefined or default is None or default in ([], {}, ""):
        return "optional"
    return f"default {str(default).lower() if isinstance(default, bool) else default}"


def table_row(*cells: str) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def key_tables() -> str:
    """Return two Markdown tables: the global keys, and the keys that are accepted without effect."""
    used = ["| key | value | meaning |", "|---|---|---|"]
    accepted = ["| key | reason |", "|---|---|"]
    for name, field in GlobalKeys.model_fields.items():
        description = field.description or ""
        if is_pointless(field):
            accepted.append(table_row(f"`{name}`", description.partition(": ")[2]))
        else:
            value = f"{describe_type(field.annotation)}, {describe_default(field)}"
            used.append(table_row(f"`{name}`", value, description))
    introduction = "Accepted without effect, with a warning, because configurations of other gyms have them:"
    return "\n".join([*used, "", introduction, "", *accepted])


def update_tables(text: str) -> str:
    """Replace the text between the two marks by the tables."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{key_tables()}\n{END}{after}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(update_tables(file.read_text(encoding="utf-8")), encoding="utf-8")
