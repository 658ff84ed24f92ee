"""The files of a running gym and its servers that were edited since it started.

Servers load their code once, so they run that of their start. A command that uses a running gym says so before it
makes rows by code that the folder has no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from socket import gethostname
from typing import Any

from nemo_gym.config.servers import find_root
from nemo_gym.failures import ConfigError
from nemo_gym.launch._file_digests import FileDigests, digests_path
from nemo_gym.launch._library_code import find_changed_rooms
from nemo_gym.launch._source_files import find_source_files


def find_edits(told: Mapping[str, Any], servers: Collection[str], datasets: Collection[Path]) -> list[str]:
    """Return what has changed in the files of `servers` and in the rooms of the gym since `describe_code` told them.

    Empty on another machine. `datasets` are resolved files with task rows, which are no code.
    """
    if told.get("machine") != gethostname():
        return []
    search_path = [Path(folder) for folder in told["search_path"]]
    digests = FileDigests(digests_path(search_path[0]))
    edits = {
        edit
        for each in told["servers"]
        if each["name"] in servers
        for edit in _edits_of(Path(each["folder"]), dict(each["files"]), search_path, digests, datasets)
    }
    return sorted(edits) + [f"{room} has changed" for room in find_changed_rooms(told, digests)]


def refuse_edits(edits: Collection[str], where: str) -> None:
    """Raise `ConfigError` for a gym that runs other code than its folders have. `where` names the gym."""
    if not edits:
        return
    listed = "\n".join(f"  {edit}" for edit in edits)
    raise ConfigError(
        f"{where} runs the code with which it was started, and its files were edited since:\n{listed}\n",
        code="old_code_runs",
        remedy="Start the gym again: end it (Ctrl-C, or SIGTERM to its process), then gym env start (ng_run). Or use "
        "it as it runs with --use-running-code (+use_running_code=true).",
    )


def _edits_of(
    folder: Path,
    files: Mapping[str, str],
    search_path: list[Path],
    digests: FileDigests,
    datasets: Collection[Path],
) -> Iterator[str]:
    """Yield what has changed in the `files` of a server, digests by names, and what is new in its folder."""
    root = find_root(folder)
    for name, digest in files.items():
        place = next((path for each in (root, *search_path) if (path := each / name).is_file()), None)
        if place is None:
            yield f"{name} was removed"
        elif place.resolve() not in datasets and digests.digest(place) != digest:
            yield f"{name} has changed"
    if not any((root / name).is_relative_to(folder) for name in files):
        return  # a server of the installed gym, whose version stands for its files
    # Data that was added is left out: servers write files into their folders.
    for path in find_source_files(folder):
        name = str(path.relative_to(root))
        if name not in files and path.resolve() not in datasets:
            yield f"{name} was added"
