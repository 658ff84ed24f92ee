"""Runs of pytest forked from one warm process: importing pytest and the server stack costs seconds, a fork does not."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from nemo_gym.processes.fork_server import ForkServer

_ABOUT_WARM_MODULES = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""pytest would have liked to import its plugins' packages itself."""


def run_forked(
    arguments: Sequence[str], folder: Path, search_path: Sequence[str], output: Path | None
) -> int:
    """The exit code of pytest with `arguments`, run in `folder`.

    Imports look into `search_path` first. What is printed goes to the file `output`, or where ours does.
    """
    file = 1 if output is None else os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        forked = _fork_server().fork(
            "pytest",
            f"{__name__}:be_pytest",
            (arguments, folder, search_path),
            descriptors={1: file} if output is None else {1: file, 2: file},
        )
        return forked.wait()
    finally:
        if output is not None:
            os.close(file)


@cache
def _fork_server() -> ForkServer:
    return ForkServer("nemo_gym.authoring.preload")


def be_pytest(arguments: Sequence[str], folder: Path, search_path: Sequence[str]) -> None:
    """In the fork: run pytest."""
    import pytest

    sys.path[:] = [*search_path, *(path for path in sys.path if path not in ("", *search_path))]
    os.environ["PYTHONPATH"] = os.pathsep.join(search_path)
    os.chdir(folder)
    code = pytest.main([*_ABOUT_WARM_MODULES, *arguments])
    sys.stdout.flush()
    os._exit(int(code))  # what a suite left running must not keep it from ending
