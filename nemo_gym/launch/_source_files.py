"""The files of a server's folder that decide its rollouts: its code, and the data that it may read.

Code is Python, and the texts that Python reads as code. Data is every other file, wherever it lies in the folder: gold
answers, databases, images. Neither are task rows, whose digest a run's identity has by itself, tests, and files that
programs write (logs, caches, results, files of a run, copies of editors). The rules go by names, endings and the first
bytes, so that a file that appears while a server runs does not make the server another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

_CODE: Final = ".py"
_TEXTS: Final = re.compile(
    r"\.(c|cfg|cpp|css|gbnf|go|h|html|ini|j2|java|jinja2?|js|json|lark|lean|liquid|lua|md|mustache|pddl|prompt|proto|r|rb|rs"
    r"|sh|sql|template|tmpl|toml|tpl|ts|txt|xml|ya?ml)",
    re.IGNORECASE,
)
"""Endings of prompts, templates, rubrics, word lists, schemas, and of code in other languages."""
_MOST_TEXT_BYTES: Final = 1 << 20
"""A larger text is data."""
_DATA_FOLDERS: Final = re.compile(r"data|datasets?", re.IGNORECASE)
"""Folders without code."""
_FOLDERS_OF_OTHERS: Final = re.compile(
    r"\..*|__pycache__|tests?|results?|outputs?|logs?|\w*caches?|te?mp|state|venv|node_modules|wandb|mlruns|checkpoints"
    r"|.*\.egg-info",
    re.IGNORECASE,
)
_FILES_OF_OTHERS: Final = re.compile(
    r"[.#~].*|.*~|test_.*\.py|.*_test\.py|conftest\.py|audit\.json|(README|CHANGELOG|CHANGES|CONTRIBUTING|LICENSE|NOTICE|TODO)\b.*"
    r"|(.*[._-])?(cache|cached|log|logs|results?|nohup|tmp|temp)([._-].*)?\.(?!py$)\w+",
    re.IGNORECASE,
)
_WRITTEN: Final = re.compile(
    r"\d+|state([._-].*)?\.\w+|.*[.](bak|lock|log|old|orig|part(ial)?|pid|py[co]|rej|sock|sw\w)"
    r"|.*-(journal|shm|wal)",
    re.IGNORECASE,
)
"""Names of files beside the data that programs write: states, locks, compiled files, journals of databases."""
_ROWS: Final = re.compile(r".*\.jsonl(\.gz|\.zst)?", re.IGNORECASE)
_TASK_MARKS: Final = (b'"responses_create_params"', b'"_ng_task_index"')
_MANIFEST: Final = "_run.json"
_FILES_OF_RUN: Final = (
    rf"({re.escape(_MANIFEST)}|_aggregate_metrics\.json|(_failures)?_index|_token_texts\.json|_nodes\.json"
    r"|_looks_fine\.json|(_\w+)?\.html|(_(torn|unplanned)_\d+|_failures(\.\d+)?|_materialized_inputs)?\.jsonl(\.\w+)*)"
)
"""Endings of the files of a run, after its stem."""
_CONFIGURATION: Final = re.compile(
    rb"^\s*(resources_servers|responses_api_agents|responses_api_models|environment_servers|config_paths)\s*:",
    re.MULTILINE,
)
"""The mark of a gym's configuration, whose values are part of a run's identity without its file."""
_HEAD_BYTES: Final = 1 << 16


def find_source_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a server's folder, at any depth, that are its code."""
    for parent, names in _walk(folder):
        if not _is_in_data(parent, folder):
            yield from (path for name in names if is_source(path := parent / name))


def find_data_files(folder: Path, most: int, *, has_code: bool = True) -> list[Path]:
    """Return the first `most` files of a folder, at any depth, that are data: neither its code nor files of others.

    A folder that `has_code` is that of a server; in others, every text is data.
    """
    return [*islice(_data_files(folder, has_code=has_code), most)]


def is_source(path: Path) -> bool:
    """Return whether a file is code of the folder that it lies in. A file that cannot be read is not code."""
    if _FILES_OF_OTHERS.fullmatch(path.name):
        return False
    try:
        return path.is_file() and (path.suffix == _CODE or _is_code_text(path))
    except OSError:
        return False


def is_data_name(name: str) -> bool:
    """Return whether a file of this name, relative to the root of its server, lies in a folder of data."""
    return any(_DATA_FOLDERS.fullmatch(part) for part in Path(name).parts[2:-1])


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield every folder with the names of its files, in order of names, without folders of others."""
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(each for each in folders if not _FOLDERS_OF_OTHERS.fullmatch(each))
        yield Path(parent), sorted(names)


def _data_files(folder: Path, *, has_code: bool) -> Iterator[Path]:
    for parent, names in _walk(folder):
        may_be_code = has_code and not _is_in_data(parent, folder)
        of_runs = _files_of_runs(parent, names)
        yield from (
            path
            for name in names
            if not (of_runs and of_runs.fullmatch(name))
            and _is_data(path := parent / name, names)
            and not (may_be_code and is_source(path))
        )


def _is_in_data(parent: Path, folder: Path) -> bool:
    return any(_DATA_FOLDERS.fullmatch(part) for part in parent.relative_to(folder).parts)


def _is_data(path: Path, beside: Collection[str]) -> bool:
    """Return whether a file is neither of others nor written beside data, nor task rows or a configuration."""
    if _FILES_OF_OTHERS.fullmatch(path.name) or _WRITTEN.fullmatch(path.name):
        return False
    if path.name.endswith("_gold.yaml") and f"{path.name.removesuffix('_gold.yaml')}.jsonl" in beside:
        return False  # the answers of a right policy to these tasks, which only tests read
    with suppress(OSError):
        return (
            path.is_file() and os.access(path, os.R_OK) and not _is_rows(path) and not _is_configuration(path)
        )
    return False


def _is_rows(path: Path) -> bool:
    """Return whether a file holds task rows, or rows of a run. Raises `OSError` if it cannot be read."""
    if not _ROWS.fullmatch(path.name):
        return False
    from nemo_gym.rollouts.plan.compression import (
        DAMAGE,
        open_content,
    )  # few folders have rows beside the code

    try:
        with open_content(path) as content:
            head = content.read(_HEAD_BYTES)
    except DAMAGE:
        return False
    return not head.strip() or any(mark in head for mark in _TASK_MARKS)


def _is_configuration(path: Path) -> bool:
    """Return whether a file is a configuration of a gym. Raises `OSError` if it cannot be read."""
    is_yaml = path.suffix.lower() in (".yaml", ".yml") and path.stat().st_size <= _MOST_TEXT_BYTES
    return is_yaml and _CONFIGURATION.search(path.read_bytes()) is not None


def _is_code_text(path: Path) -> bool:
    """Return whether a text is short and no configuration of a gym. Raises `OSError` if it cannot be read."""
    is_short_text = _TEXTS.fullmatch(path.suffix) and path.stat().st_size <= _MOST_TEXT_BYTES
    return bool(is_short_text) and not _is_configuration(path)


def _files_of_runs(folder: Path, names: Collection[str]) -> re.Pattern[str] | None:
    """Return the pattern of the files of the runs in a folder, by their manifests; None without a run."""
    stems = [name.removesuffix(_MANIFEST) for name in names if name.endswith(_MANIFEST)]
    runs = [re.escape(stem) for stem in stems if _is_manifest(folder / f"{stem}{_MANIFEST}")]
    return re.compile(f"({'|'.join(runs)}){_FILES_OF_RUN}") if runs else None


def _is_manifest(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return b'"schema_version"' in file.read(100)
    return False
