"""pytest runs in forks of a preloaded process, because importing pytest and the server stack takes seconds."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path

from nemo_gym.processes.fork_server import ForkServer

_PRELOAD_OPTIONS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""pytest warns about packages of plugins that were imported before it."""


def run_forked(
    arguments: Sequence[str], folder: Path, search_path: Sequence[str], output: Path | None
) -> int:
    """Run pytest with `arguments` in `folder`, and return its exit code.

    `search_path` precedes the import path. The output is appended to the file `output`, or printed.
    """
    with nullcontext() if output is None else output.open("ab") as file:
        descriptors = {1: 1} if file is None else {1: file.fileno(), 2: file.fileno()}
        pytest = f"{__name__}:be_pytest"
        forked = _fork_server().fork(
            "pytest", pytest, (arguments, folder, search_path), descriptors=descriptors
        )
        return asyncio.run(forked.wait_for_end())


@cache
def _fork_server() -> ForkServer:
    return ForkServer("nemo_gym.authoring._preload")


def be_pytest(arguments: Sequence[str], folder: Path, search_path: Sequence[str]) -> None:
    """In the fork: run pytest."""
    import pytest

    sys.path[:] = [*search_path, *(path for path in sys.path if path not in ("", *search_path))]
    os.environ["PYTHONPATH"] = os.pathsep.join(search_path)
    os.chdir(folder)
    code = pytest.main([*_PRELOAD_OPTIONS, *arguments])
    sys.stdout.flush()
    os._exit(int(code))  # threads that the suite left running must not delay the exit
