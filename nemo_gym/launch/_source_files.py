"""The files of a server's folder that are its code: Python, and the texts that Python reads as code.

Tests, datasets and files that programs write (logs, caches, results, copies of editors) are not. The rules go by names
and endings, so that a file that appears while a server runs does not make the server another one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
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
_FOLDERS_OF_OTHERS: Final = re.compile(
    r"\..*|__pycache__|tests?|data|datasets?|results?|outputs?|logs?|\w*caches?|te?mp|venv|node_modules|wandb|mlruns"
    r"|checkpoints|.*\.egg-info",
    re.IGNORECASE,
)
_FILES_OF_OTHERS: Final = re.compile(
    r"[.#~].*|.*~|test_.*\.py|.*_test\.py|conftest\.py|(README|CHANGELOG|CHANGES|CONTRIBUTING|LICENSE|NOTICE|TODO)\b.*"
    r"|(.*[._-])?(cache|cached|log|logs|results?|nohup|tmp|temp)([._-].*)?\.(?!py$)\w+",
    re.IGNORECASE,
)
_CONFIGURATION: Final = re.compile(
    rb"^\s*(resources_servers|responses_api_agents|responses_api_models|environment_servers|config_paths)\s*:",
    re.MULTILINE,
)
"""The mark of a gym's configuration, whose values are part of a run's identity without its file."""


def find_source_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a server's folder, at any depth, that are its code."""
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        folders[:] = (
            [] if real in seen else [each for each in folders if not _FOLDERS_OF_OTHERS.fullmatch(each)]
        )
        if real in seen:  # a link to a folder above
            continue
        seen.add(real)
        yield from (path for name in names if is_source(path := Path(parent, name)))


def is_source(path: Path) -> bool:
    """Return whether a file is code of the folder that it lies in. A file that cannot be read is not code."""
    if _FILES_OF_OTHERS.fullmatch(path.name):
        return False
    try:
        return path.is_file() and (path.suffix == _CODE or _is_text_of_code(path))
    except OSError:
        return False


def _is_text_of_code(path: Path) -> bool:
    """Return whether a text is short and no configuration of a gym. Raises `OSError` if it cannot be read."""
    if not _TEXTS.fullmatch(path.suffix) or path.stat().st_size > _MOST_TEXT_BYTES:
        return False
    return path.suffix.lower() not in (".yaml", ".yml") or not _CONFIGURATION.search(path.read_bytes())
