"""Resolution of relative paths in configurations: the working directory, the user's other roots, the gym's folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from nemo_gym import PARENT_DIR, WORKING_DIR

GYM_FOLDERS = (PARENT_DIR, PARENT_DIR / "nemo_gym")
"""The gym's own folders: the one that holds the package, and the package itself, where a wheel puts `configs/`."""
EXTRA_ROOTS_VARIABLE = "NEMO_GYM_EXTRA_ROOTS"
"""The environment variable with further roots, separated as in `PATH`. The option `--search-dir` adds to it."""
ROOTS_ENTRY_POINT = "nemo_gym.roots"
"""The group of entry points by which an installed package declares a module whose folder is a root."""


def extra_roots() -> tuple[Path, ...]:
    """Return the roots that the user names. A root holds `resources_servers/`, `environments/` and the like."""
    named = os.environ.get(EXTRA_ROOTS_VARIABLE, "").split(os.pathsep)
    return tuple(Path(root).expanduser().absolute() for root in named if root)


def set_extra_roots(*roots: Path) -> None:
    """Replace the roots that the user names, for this process and the programs that it starts."""
    os.environ[EXTRA_ROOTS_VARIABLE] = os.pathsep.join(map(str, roots))


@cache
def find_installed_roots() -> tuple[Path, ...]:
    """Return the roots of installed packages, by the names of their entry points."""
    from importlib.metadata import entry_points  # imported here, because every server imports this module
    from importlib.util import find_spec

    declared = sorted(entry_points(group=ROOTS_ENTRY_POINT), key=lambda each: each.name)
    specs = [find_spec(each.module) for each in declared]
    return tuple(Path(folder) for spec in specs if spec for folder in spec.submodule_search_locations or ())


def search_roots(working_directory: Path = WORKING_DIR) -> Iterator[Path]:
    """Yield every root once, in order of precedence. Installed packages are looked up only if they are reached."""
    roots = dict.fromkeys((working_directory, *extra_roots(), *GYM_FOLDERS))
    yield from roots
    yield from (root for root in find_installed_roots() if root not in roots)


def candidates(name: str | Path, working_directory: Path = WORKING_DIR) -> Iterator[Path]:
    """Yield the candidate paths of `name` in order of precedence; an absolute path is the only candidate."""
    path = Path(name).expanduser()
    if path.is_absolute():
        yield path
        return
    for root in search_roots(working_directory):
        yield root / path


def find_file(name: str | Path, working_directory: Path = WORKING_DIR) -> Path | None:
    """Return the first candidate that is a file, or None."""
    return next((place for place in candidates(name, working_directory) if place.is_file()), None)


def resolve_for_reading(rel_path: str | Path, *, validator: Callable[[Path], bool] | None = None) -> Path:
    """Return the first candidate that exists, or that `validator` accepts; else the first candidate."""
    found = next(filter(validator or Path.exists, candidates(rel_path, Path.cwd())), None)
    return found or next(candidates(rel_path, Path.cwd()))


def display_path(path: Path, working_directory: Path) -> str:
    """Return the shortest name of `path` for a user.

    A path inside the working directory is relative to it. A file of the gym has the name by which configurations find
    it, which is short even if the gym is installed deep in a virtual environment.
    """
    names = [str(path)]
    if path.is_relative_to(working_directory):
        names.append(str(path.relative_to(working_directory)))
    if path.is_relative_to(PARENT_DIR):
        name = path.relative_to(PARENT_DIR)
        found = find_file(name, working_directory)
        if found is not None and found.resolve() == path.resolve():
            names.append(str(name))
    return min(names, key=len)
