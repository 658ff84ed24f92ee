"""Command-line overrides, in Hydra's grammar.

`+key=value` adds, `++key=value` adds or replaces, `key=value` replaces, `~key` deletes. `--key=value`, `--key value`
and `--flag` are other spellings of `++key=value` and `++flag=true`. Dots reach into mappings and lists; values are
scalars, `[lists]` or `{key: value}` mappings.

Hydra is imported only if a value needs its grammar.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.secret_forms import HIDDEN
from nemo_gym.config.secrets import hide_secrets, is_secret_name
from nemo_gym.config.tree import Tree, build_tree
from nemo_gym.config.yaml_text import MAX_DEPTH

COMMAND_LINE = "command line"


class Action(StrEnum):
    ADD = "+"
    ADD_OR_REPLACE = "++"
    REPLACE = ""
    DELETE = "~"


@dataclass(frozen=True, slots=True)
class Override:
    action: Action
    key: str
    """The dotted path as it was typed."""
    value: Tree | None
    """The value to set. A deletion requires this current value, or accepts any if it is None."""
    where: Location


@dataclass(frozen=True, slots=True)
class _Argument:
    """One override in Hydra's grammar, and the text as it was typed."""

    text: str
    typed: str


_LOOKS_LIKE_OVERRIDE = re.compile(r"\+|~|--\w|[\w.@/-]+=")
_KEY = re.compile(r"(?P<action>\+\+|\+|~)?(?P<key>[^=]*)(?P<equals>=)?(?P<value>.*)", re.DOTALL)
_QUOTED_OR_NEWLINE = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\s*\n\s*""")


def parse_overrides(
    arguments: Sequence[str], problems: Problems, names: Collection[str] = (), flags: Collection[str] = ()
) -> list[Override]:
    """Parse `arguments`. An argument that cannot be parsed is a problem.

    `names` are the keys that may be written with dashes after `--`. `flags` are the Boolean ones among them.
    """
    parsed = (_parse_one(argument, problems) for argument in _spell_for_hydra(arguments, names, flags))
    overrides = [override for override in parsed if override is not None]
    _report_repeated(overrides, problems)
    return overrides


def _spell_for_hydra(
    arguments: Sequence[str], names: Collection[str], flags: Collection[str]
) -> Iterator[_Argument]:
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if not argument.startswith("--"):
            yield _Argument(argument, argument)
            continue
        key, equals, value = argument[2:].partition("=")
        with_underscores = key.replace("-", "_")
        key = with_underscores if with_underscores in names else key
        if equals:
            yield _Argument(f"++{key}={value}", argument)
        elif remaining and _is_value(remaining[0], key in flags):
            value = remaining.pop(0)
            yield _Argument(f"++{key}={value}", f"{argument} {value}")
        else:
            yield _Argument(f"++{key}=true", argument)


def _is_value(argument: str, is_of_flag: bool) -> bool:
    """Return whether `argument` is the value of the preceding `--key`, rather than the next override."""
    if is_of_flag:
        return argument.lower() in ("true", "false")
    return not _LOOKS_LIKE_OVERRIDE.match(argument)


def _parse_one(argument: _Argument, problems: Problems) -> Override | None:
    parts = _KEY.fullmatch(argument.text)
    assert parts is not None
    key, value = parts["key"], parts["value"].strip()
    where = _location(argument, key, value)
    if not parts["equals"] and parts["action"] != "~":
        problems.add_gap(where, "This is not `key=value`.", _remedy_for_word(argument.text))
        return None
    if key.count(".") >= MAX_DEPTH:
        problems.add_gap(where, f"The key has more than {MAX_DEPTH} parts.", "Write fewer.")
        return None
    if parts["equals"] and is_plain_key(key):
        with contextlib.suppress(ValueError):
            plain = parse_plain_value(value)
            return Override(Action(parts["action"] or ""), key, build_tree(plain, where, problems), where)
    return _parse_by_hydra(argument, parts, where, problems)


def _parse_by_hydra(
    argument: _Argument, parts: re.Match[str], where: Location, problems: Problems
) -> Override | None:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    action, key, value = Action(parts["action"] or ""), parts["key"], parts["value"].strip()
    # Hydra's lexer rejects newlines outside quotes, but users write long lists over several lines.
    text = _QUOTED_OR_NEWLINE.sub(
        lambda match: match[1] or " ", argument.text[: parts.start("value")] + value
    )
    try:
        parsed = OverridesParser.create().parse_override(text)
        is_sweep = parsed.is_sweep_override()
        plain = None if is_sweep else parsed.value()
    except (HydraException, RecursionError) as error:
        is_secret = _is_secret(key, value)
        remedy = _syntax_remedy(action, key, value, is_secret)
        problems.add_gap(where, _syntax_message(error, is_secret), remedy)
        return None
    if is_sweep:
        problems.add_gap(
            where,
            "This is a sweep over several values, but a gym runs one configuration.",
            f"For a list, write {key}=[...]. For text with a comma, quote it twice: '{key}=\"...\"'.",
        )
        return None
    if parsed.package is not None:
        problems.add_gap(
            where, "`@` selects a Hydra package, which a gym does not have.", "Write the whole key with dots."
        )
        return None
    is_bare = action is Action.DELETE and not parts["equals"]
    return Override(action, key, None if is_bare else build_tree(plain, where, problems), where)


def _location(argument: _Argument, key: str, value: str) -> Location:
    """Return the location of an override, with a secret value hidden."""
    typed = argument.typed
    if _is_secret(key, value):
        typed = f"{typed.rpartition(value)[0]}{HIDDEN}"
    return Location(COMMAND_LINE, text=" ".join(typed.split()))


def _is_secret(key: str, value: str) -> bool:
    """Return whether a value is secret by its key, by a key inside it or by a URL inside it. A budget is a number."""
    if key.startswith("budget.") and _NUMBER.fullmatch(value):
        return False
    keys = [key.rsplit(".", 1)[-1], *re.findall(r"[{,]\s*['\"]?([\w.-]+)['\"]?\s*:", value)]
    return bool(value) and (any(map(is_secret_name, keys)) or hide_secrets(value) != value)


def _syntax_message(error: Exception, is_secret: bool) -> str:
    if is_secret:
        return "The value cannot be parsed."
    if isinstance(error, RecursionError):
        return "The value cannot be parsed: its brackets are nested too deeply."
    return f"The value cannot be parsed: {str(error).splitlines()[0].removeprefix('HydraException ')}."


def _syntax_remedy(action: str, key: str, value: str, is_secret: bool) -> str:
    if value.startswith(("[", "{")):
        return (
            "Check brackets and commas. Quote text that contains = , # & ( ) or quotes, also inside brackets."
        )
    shown = "..." if is_secret or '"' in value else value
    return f"Quote the value twice: '{action}{key}=\"{shown}\"'."


def _remedy_for_word(word: str) -> str:
    if word.endswith((".yaml", ".yml")):
        return f"For a configuration file, write '+config_paths=[{word}]'."
    from nemo_gym.config.components import suggest_verbs  # only for a wrong command line

    key = word.lstrip("+-")
    if key == word and (verbs := suggest_verbs(word, Path.cwd())) is not None:
        return verbs
    return f"Write +{key}=<value>, or ~{key} to delete the key."


def _report_repeated(overrides: Sequence[Override], problems: Problems) -> None:
    """Add a problem for every repeated key, except those with `++`, where the last one counts."""
    seen: dict[str, Override] = {}
    for override in overrides:
        first = seen.setdefault(override.key, override)
        if first is not override and override.action is not Action.ADD_OR_REPLACE:
            problems.add(
                override.where,
                f"The key {override.key!r} is given twice, first as {first.where.text!r}.",
                "Give it once. For several values, write a list: key=[a,b].",
            )


# --- Values that need no grammar --------------------------------------------------------------------------------------
# Numbers, constants, paths, URLs, names, and flat lists of these are nearly all that is typed, and Hydra takes as long
# to import as the rest of a command. Every value here means what it means in Hydra's grammar. Any other value is left
# to Hydra.


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_TEXT = re.compile(r"(?:\.{0,2}/|[A-Za-z_])[A-Za-z0-9_./:-]*(?<!:)")
_ADDRESS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_CONSTANTS = {"true": True, "false": False, "null": None, "nan": math.nan, "inf": math.inf}
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*")
_BLANK = " \t\n"


def is_plain_key(key: str) -> bool:
    """Return whether `key` is names joined by dots."""
    return _PATH.fullmatch(key) is not None


def parse_plain_value(text: str) -> Any:
    """Return the value of `text`. Raises `ValueError` if it needs Hydra's grammar."""
    if not (text.startswith("[") and text.endswith("]")):
        return _parse_item(text)
    inside = text[1:-1].strip(_BLANK)
    return [_parse_item(item.strip(_BLANK)) for item in inside.split(",")] if inside else []


def _parse_item(text: str) -> Any:
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if _TEXT.fullmatch(text) or _ADDRESS.fullmatch(text):
        return text
    raise ValueError(f"{text!r} needs a grammar")
