"""The code of a gym's servers as digests of files, which the gym tells everyone who collects from it.

The launcher computes it before a server starts, so it is the code that runs, on whichever machine the collector is. A
server's code is that of its folder (`_source_files`), the modules that it imports from the user's folders
(`_imported_files`), those that its configuration names (`_named_files`), and the other files of its folder, which are
data that it may read. Installed packages are left out. The code of the gym is told once for all servers: its version,
and in a checkout the digests of its rooms (`_library_code`).
"""

from __future__ import annotations

import logging
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from socket import gethostname
from typing import Any, Final

from nemo_gym import PARENT_DIR, __version__
from nemo_gym.config.servers import ServerInstance, find_root
from nemo_gym.launch._file_digests import FileDigests, digests_path
from nemo_gym.launch._imported_files import find_imported_files
from nemo_gym.launch._library_code import describe_library, find_changed_rooms
from nemo_gym.launch._named_files import find_named_files
from nemo_gym.launch._source_files import find_data_files, find_source_files, is_data_name
from nemo_gym.paths import find_file

log = logging.getLogger(__name__)

MOST_DATA_FILES: Final = 10_000
"""The data files of a folder that count, the first in the order of their names."""
_GIT_S: Final = 2.0
"""Seconds that git may take. A slower answer is left out, because it would delay every start."""
_IS_CHECKOUT: Final = (PARENT_DIR / "pyproject.toml").is_file()
"""Whether the gym runs from its source, where users edit environments. Those of a wheel have the wheel's version."""
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def describe_code(instances: Sequence[ServerInstance], working_folder: Path) -> dict[str, Any]:
    """Return the code of servers as the configuration of a running gym holds it (`names.CODE_KEY`).

    `servers` has the name and the folder of each server, and its files as pairs of a path and a digest. No key is a
    name, which could look like that of a secret. Paths are relative to the root of the server's folder, so a copy of
    the folders is the same code. `library` has the rooms of the gym, if it runs from a checkout. `repository` is that
    of `working_folder`, or None. `machine` and `search_path` say where the files are.
    """
    found = _find_files(instances, working_folder)
    folders = {each.name: str(each.directory.resolve()) for each in instances}
    files = {path for code in found.values() for path in code.values()}
    library = (
        describe_library(PARENT_DIR, FileDigests(digests_path(working_folder))) if _IS_CHECKOUT else None
    )
    return {
        "version": __version__,
        "servers": [
            {"name": name, "folder": folders[name], "files": digested}
            for name, digested in _digest_files(found, working_folder).items()
        ],
        **({"library": library} if library else {}),
        "repository": read_repository(working_folder, files),
        "machine": gethostname(),
        "search_path": [str(folder) for folder in (working_folder.resolve(), *_user_search_path())],
    }


def _digest_files(
    found: Mapping[str, Mapping[str, Path]], working_folder: Path
) -> dict[str, list[list[str]]]:
    """Return the files of servers as pairs of a name and a digest, by the server."""
    digests = FileDigests(digests_path(working_folder))
    told = {
        server: [[name, digest] for name in sorted(files) if (digest := digests.digest(files[name]))]
        for server, files in found.items()
    }
    digests.keep()
    return told


def _find_files(instances: Sequence[ServerInstance], working_folder: Path) -> dict[str, dict[str, Path]]:
    """Return the files of the code and the data of every server with a process, by their names."""
    servers = [each for each in instances if not each.is_alias]
    datasets = {path for each in servers for path in find_declared_datasets(each.config, working_folder)}
    return {
        each.name: _find_data(each, working_folder, datasets) | find_code(each, working_folder)
        for each in servers
    }


def _find_data(instance: ServerInstance, working_folder: Path, datasets: Collection[Path]) -> dict[str, Path]:
    """Return the files that a server may read beside its code, without the declared `datasets`, by their names."""
    folder = instance.directory.resolve()
    data = set() if _is_of_wheel(folder) else {*find_data_files(folder, MOST_DATA_FILES)}
    if len(data) == MOST_DATA_FILES:
        log.warning(
            "%s has %s files or more: a resumed run does not see a change of further ones",
            folder,
            f"{MOST_DATA_FILES:,}",
        )
    return {_name_file(path, [find_root(folder)]): path for path in data if path.resolve() not in datasets}


def find_declared_datasets(options: Mapping[str, Any], working_folder: Path) -> Iterator[Path]:
    """Yield the files with task rows that the options of a server declare, as far as they exist."""
    declared = options.get("datasets")
    for dataset in declared if isinstance(declared, list) else ():
        path = dataset.get("jsonl_fpath") if isinstance(dataset, Mapping) else None
        found = find_file(path, working_folder) if isinstance(path, str) else None
        if found is not None:
            yield found.resolve()


def find_code(instance: ServerInstance, working_folder: Path) -> dict[str, Path]:
    """Return the files of a server's code by their names, and those that its configuration names.

    The folder of a server of the installed gym has none.
    """
    folder = instance.directory.resolve()
    roots = list(dict.fromkeys([folder, find_root(folder), working_folder.resolve(), *_user_search_path()]))
    named = find_named_files(instance, working_folder, _is_installed, MOST_DATA_FILES)
    own = set() if _is_of_wheel(folder) else {*find_source_files(folder), folder / instance.entrypoint}
    files = own | named
    sources = [path for path in files if path.suffix == ".py"]
    files |= find_imported_files(sources, roots, _is_installed)
    return {_name_file(path, [find_root(folder), *roots[2:]]): path for path in files}


def find_changed_modules(
    instance: ServerInstance, working_folder: Path, told: Mapping[str, Any]
) -> list[str]:
    """Return the Python files of a server, and the rooms of the gym, that `describe_code` told otherwise at its start.

    Files in its folders of data are left out: a server that writes them is restarted.
    """
    before = [
        pair for server in told["servers"] if server["name"] == instance.name for pair in server["files"]
    ]
    [now] = _digest_files({instance.name: find_code(instance, working_folder)}, working_folder).values()
    differing = {(name, digest) for name, digest in before} ^ {(name, digest) for name, digest in now}
    modules = {name for name, _ in differing if name.endswith(".py") and not is_data_name(name)}
    return sorted(modules) + find_changed_rooms(told, FileDigests(digests_path(working_folder)))


def _is_of_wheel(folder: Path) -> bool:
    """Return whether a server's folder is one of the installed gym."""
    return not _IS_CHECKOUT and folder.is_relative_to(PARENT_DIR) and folder.parents[1] == PARENT_DIR


@lru_cache(maxsize=1)
def _user_search_path() -> tuple[Path, ...]:
    """Return the folders of `sys.path` that hold no installed packages, such as those of `PYTHONPATH`."""
    standard = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders = [Path(entry).resolve() for entry in sys.path if entry]
    return tuple(
        folder
        for folder in dict.fromkeys(folders)
        if folder.is_dir()
        and _INSTALLED.isdisjoint(folder.parts)
        and not _is_in(folder, standard)
        and (_IS_CHECKOUT or folder != PARENT_DIR)
    )


def _is_in(folder: Path, parents: Iterable[Path]) -> bool:
    return any(folder.is_relative_to(parent) for parent in parents)


def _is_installed(path: Path) -> bool:
    return not _INSTALLED.isdisjoint(path.parts) or path.is_relative_to(PARENT_DIR / "nemo_gym")


def _name_file(path: Path, roots: Sequence[Path]) -> str:
    """Return the path of a file relative to the first root that holds it."""
    return next((str(path.relative_to(root)) for root in roots if path.is_relative_to(root)), str(path))


def read_repository(folder: Path, files: Iterable[Path] = ()) -> dict[str, Any] | None:
    """Return the commit of the git repository of `folder`, and whether the files differ from it (`dirty`).

    One of `files` that git does not track is a difference too. None without a repository, a commit, or git.
    """
    top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    if top is None:
        return None
    status = _ask_git(top, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    if status is None:
        return None
    heads = [line.split()[-1] for line in status.splitlines() if line.startswith("# branch.oid ")]
    if not heads or not heads[0].isalnum():  # `(initial)`: there is no commit yet
        return None
    is_changed = any(not line.startswith("#") for line in status.splitlines())
    return {"commit": heads[0], "dirty": is_changed or bool(list(_list_untracked(top.resolve(), files)))}


def _list_untracked(top: Path, files: Iterable[Path]) -> Iterator[Path]:
    """Yield the files below `top` that git does not track."""
    inside = [path for path in files if path.is_relative_to(top)]
    listed = _ask_git(top, "ls-files", "-z") if inside else ""
    tracked = set((listed or "").split("\0"))
    yield from (path for path in inside if str(path.relative_to(top)) not in tracked)


def _ask_git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if git is missing, refuses or is slow."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="surrogateescape")
