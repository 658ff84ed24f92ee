"""Creation of a new environment: code, configuration, example tasks with gold answers, tests, README."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Mapping
from pathlib import Path

from nemo_gym.failures import ConfigError
from nemo_gym.paths import candidates

KIND = "resources_servers"
_TEMPLATE = Path(__file__).parent / "template"
"""The files of a small working environment, with `NAME` and `CLASS` for the names and the suffix `.txt`.

The policy looks for a note in drawers. There is a tool, state per session, fields of the task row and a verifier.
"""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def scaffold(entrypoint: str, working_folder: Path) -> list[Path]:
    """Write the environment `resources_servers/<name>` below `working_folder`, and return its files.

    Raises `ConfigError` for an invalid name, an existing folder, or one that would hide an environment elsewhere. No
    file is overwritten.
    """
    name = _name_in(entrypoint)
    folder = working_folder / KIND / name
    if folder.exists():
        raise ConfigError(
            f"{folder} already exists",
            code="name_taken",
            remedy="Choose another name, or move that folder away.",
            param="entrypoint",
        )
    if (hidden := _find_elsewhere(name, working_folder)) is not None:
        raise ConfigError(
            f"there is an environment {name!r} in {hidden}, which a new one of that name would hide",
            code="name_taken",
            remedy=f"Choose another name, such as {_find_free_name(name, working_folder)}.",
            param="entrypoint",
        )
    files = {folder / path: text for path, text in _render_files(name).items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


def _find_elsewhere(name: str, working_folder: Path) -> Path | None:
    """Return the folder in which the environment `name` is found so far; None if there is none."""
    return next((place for place in candidates(f"{KIND}/{name}", working_folder) if place.is_dir()), None)


def _find_free_name(name: str, working_folder: Path) -> str:
    numbers = itertools.count(2)
    free = f"my_{name}"
    while _find_elsewhere(free, working_folder) is not None:
        free = f"my_{name}_{next(numbers)}"
    return free


def build_class_name(name: str) -> str:
    """`guess_number` → `GuessNumber`."""
    return "".join(part.capitalize() for part in name.split("_"))


def _render_files(name: str) -> Mapping[str, str]:
    words = {"NAME": name, "CLASS": build_class_name(name)}

    def fill(text: str) -> str:
        return re.sub("NAME|CLASS", lambda found: words[found[0]], text)

    return {
        fill(str(path.relative_to(_TEMPLATE).with_suffix(""))): fill(path.read_text(encoding="utf-8"))
        for path in sorted(_TEMPLATE.rglob("*.txt"))
    }


def _name_in(entrypoint: str) -> str:
    """Return the name of the environment in `resources_servers/<name>` or `<name>`."""
    parts = [part for part in entrypoint.split("/") if part]
    kinds, name = parts[:-1], parts[-1] if parts else ""
    if kinds not in ([], [KIND]):
        raise ConfigError(
            f"{entrypoint!r} is not the folder of an environment",
            code="bad_entrypoint",
            remedy=f"Write {KIND}/{name or '<name>'}. An agent has no template: docs/agents.md has a whole one.",
            param="entrypoint",
        )
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or not build_class_name(name):
        raise ConfigError(
            f"{name!r} cannot be the name of an environment",
            code="bad_name",
            remedy="Use a Python module name: lower-case letters, digits and underscores, beginning with a letter.",
            param="entrypoint",
        )
    return name
