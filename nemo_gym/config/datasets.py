"""The `datasets` of servers: their keys, and their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.pydantic_problems import validate
from nemo_gym.config.servers import ServerInstance
from nemo_gym.config.tree import DictTree, nearest_location, render_path
from nemo_gym.config.tree import Path as KeyPath
from nemo_gym.config.types import DatasetConfig
from nemo_gym.paths import find_file


class ServerDataset(NamedTuple):
    """A dataset that a server declares."""

    server: ServerInstance
    dataset: DatasetConfig
    file: Path | None
    """The file with its rows, or None until it is fetched or prepared."""
    where: Location


def read_datasets(
    servers: Iterable[ServerInstance], root: DictTree, working_directory: Path, problems: Problems
) -> tuple[ServerDataset, ...]:
    """Return the datasets of all servers. A malformed dataset, or one without its prompt or script, is a problem."""
    return tuple(
        found for server in servers for found in _read_datasets(server, root, working_directory, problems)
    )


def _read_datasets(
    server: ServerInstance, root: DictTree, working_directory: Path, problems: Problems
) -> Iterator[ServerDataset]:
    declared = server.config.get("datasets")
    path = (*server.path, "datasets")
    if declared is not None and not isinstance(declared, list):
        problems.add(
            nearest_location(root, path), f"{render_path(path)} is not a list.", "Write `- name: ...`."
        )
        return
    for index, block in enumerate(declared or ()):
        at = (*path, index)
        where = nearest_location(root, at)
        if not isinstance(block, Mapping):
            problems.add(where, f"{render_path(at)} is not a mapping.", "Write `- name: ...`.")
            continue
        dataset = validate(DatasetConfig, block, root, problems, at)
        if dataset is None:
            continue
        file = find_file(dataset.jsonl_fpath, working_directory)
        _check_files(dataset, at, root, working_directory, problems)
        yield ServerDataset(server, dataset, file, where)


def _check_files(
    dataset: DatasetConfig,
    at: KeyPath,
    root: DictTree,
    working_directory: Path,
    problems: Problems,
) -> None:
    """Check that the prompt and the script of the dataset exist. Its rows are needed only by what reads them."""
    for key in ("prompt_config", "prepare_script"):
        name = getattr(dataset, key)
        if name is not None and find_file(name, working_directory) is None:
            where = nearest_location(root, (*at, key))
            problems.add(where, f"{render_path((*at, key))}: there is no file {name!r}.")
