"""Shell completion of `gym`: its verbs and options (by click), names of environments, keys and files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from nemo_gym.config.components import (
    BENCHMARK,
    ENVIRONMENT,
    KINDS,
    RESOURCES_SERVER,
    ComponentKind,
    find_components,
)
from nemo_gym.config.pydantic_problems import list_keys

TARGETS = (ENVIRONMENT, BENCHMARK, RESOURCES_SERVER)
"""The kinds of a positional name."""
_KIND_OF_OPTION = {kind.option: kind for kind in KINDS}
_TITLES = tuple(kind.title for kind in KINDS)


def complete_argument(command: str, arguments: str, typed: str) -> list[CompletionItem]:
    """Return the completions of a positional argument: a key of the command, a file or a name.

    `arguments` is the usage of the verb, such as `[NAME]...`.
    """
    if typed.startswith("+"):
        return _keys(command, typed)
    if "FILE" in arguments or "BEFORE" in arguments or typed.startswith((".", "/", "~")):
        return [CompletionItem(typed, type="file")]
    if "KIND" in arguments:
        return [CompletionItem(title) for title in _TITLES if title.startswith(typed)]
    if "SHELL" in arguments:
        return [CompletionItem(shell) for shell in ("bash", "zsh", "fish") if shell.startswith(typed)]
    return _names(TARGETS, typed) if "NAME" in arguments else []


def complete_option(option: str, metavar: str, typed: str) -> list[CompletionItem]:
    """Return the completions of an option's value."""
    if option in _KIND_OF_OPTION:
        kinds = TARGETS if option == ENVIRONMENT.option else (_KIND_OF_OPTION[option],)
        return _names(kinds, typed)
    if metavar in ("FILE", "DIR", "PATTERN"):
        return [CompletionItem(typed, type="dir" if metavar == "DIR" else "file")]
    return []


def script(shell: str, program: str) -> str:
    """Return the script that a shell reads to complete `program`."""
    completion = get_completion_class(shell)
    assert completion is not None
    return completion(click.Command(program), {}, program, f"_{program.upper()}_COMPLETE").source()


def _names(kinds: tuple[ComponentKind, ...], typed: str) -> list[CompletionItem]:
    found = {each.name for kind in kinds for each in find_components(kind, Path.cwd())}
    return [CompletionItem(name) for name in sorted(found) if name.startswith(typed)]


def _keys(command: str, typed: str) -> list[CompletionItem]:
    plus = "++" if typed.startswith("++") else "+"
    keys = list_keys(import_module(f"nemo_gym.cli.{command}").COMMAND.keys)
    return [CompletionItem(f"{plus}{key}=") for key in sorted(keys) if f"{plus}{key}=".startswith(typed)]
