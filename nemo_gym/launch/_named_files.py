"""The files that the configuration of a server names: prompts, chat templates, tokenizers, tables, recordings.

A run's identity has the value, which is only the name. The content decides the rollouts, so it counts like a file of
the server's folder. Keys of files that are written (`record_to`, `log_dir`), of addresses and of secrets do not count,
nor do files of the operating system, of installed packages, or folders that hold the working folder.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from nemo_gym.config.secrets import is_secret_name
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch._source_files import find_data_files
from nemo_gym.paths import candidates

_OTHER_KEYS: Final = re.compile(
    r"(.*_)?(address|bin|cache|capture|command|cwd|datasets|debug|dump|endpoint|entrypoint|home|image|lock|logs?|mount"
    r"|mounts|out|output|outputs|pid|record|results?|root|save|scratch|socket|state|tmp|temp|url|urls|work|workdir|working"
    r"|workspace|write)(_.*)?|\w*_to|host|name",
    re.IGNORECASE,
)
"""Keys of files that programs write, of addresses, of names, and of folders to work in."""
_FORM: Final = re.compile(r"_(f?path|file|fpaths|paths|files)$")
_LONGEST: Final = 1024
"""Characters of the longest path."""
_WEIGHTS: Final = re.compile(r".*\.(bin|ckpt|gguf|h5|onnx|pth?|safetensors)", re.IGNORECASE)
"""Weights of models: the engine that loads them is part of a run's identity by itself."""
_OF_SYSTEM: Final = tuple(
    Path(folder)
    for folder in (
        "/bin",
        "/dev",
        "/etc",
        "/lib",
        "/lib64",
        "/proc",
        "/run",
        "/sbin",
        "/sys",
        "/usr",
        sys.prefix,
        sys.base_prefix,
    )
)


def find_named_files(
    instance: ServerInstance, working_folder: Path, is_installed: Callable[[Path], bool], most: int
) -> set[Path]:
    """Return the files that the configuration of a server names, and at most `most` of each folder that it names."""
    found: set[Path] = set()
    for value in _read_values(instance.config):
        with suppress(OSError, ValueError):  # a value that is no path
            path = _locate(value, instance, working_folder)
            if path is None or is_installed(path) or any(path.is_relative_to(each) for each in _OF_SYSTEM):
                continue
            if path.is_file() and os.access(path, os.R_OK):
                found.add(path)
            elif path.is_dir() and _is_own_folder(path, working_folder.resolve()):
                found.update(
                    each
                    for each in find_data_files(path, most, has_code=False)
                    if not _WEIGHTS.fullmatch(each.name)
                )
    return found


def _read_values(config: Any, key: str = "") -> Iterator[str]:
    """Yield the texts of a configuration that may be paths of files to read."""
    if isinstance(config, Mapping):
        for name, value in config.items():
            if not _OTHER_KEYS.fullmatch(str(name)) and not is_secret_name(_FORM.sub("", str(name))):
                yield from _read_values(value, str(name))
    elif isinstance(config, list | tuple):
        for value in config:
            yield from _read_values(value, key)
    elif isinstance(config, str) and _may_be_path(config):
        yield config


def _may_be_path(text: str) -> bool:
    is_one_line = len(text) <= _LONGEST and "\n" not in text and "://" not in text
    return is_one_line and ("/" in text or bool(Path(text).suffix))


def _locate(value: str, instance: ServerInstance, working_folder: Path) -> Path | None:
    """Return the path that a server would read: from its folder, in which it runs, or one of the roots."""
    places = (instance.directory / value, *candidates(value, working_folder))
    return next((place.resolve() for place in places if place.exists()), None)


def _is_own_folder(folder: Path, working_folder: Path) -> bool:
    """Return whether a folder is one of a user's files, and not one that others work in, such as `/tmp`."""
    is_shared = len(folder.parts) <= 2 or folder in (Path(tempfile.gettempdir()).resolve(), Path.home())
    return not is_shared and not working_folder.is_relative_to(folder)
