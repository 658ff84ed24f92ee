"""Run a server's `app.py` as `__main__`, with the search path and `sys.argv` of a command line.

`python -P _script.py <app.py> [<search path> ...]` does so in another interpreter.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys


def run_script(script: str, *search_path: str) -> None:
    """Execute the file `script` as `__main__` in its folder, with `search_path` first in `sys.path`."""
    sys.path[:0] = [folder for folder in search_path if folder not in sys.path]
    # Imported before the folder changes, because it sets `nemo_gym.WORKING_DIR`.
    importlib.import_module("nemo_gym")
    os.chdir(os.path.dirname(script))  # noqa: PTH120 - pathlib takes time to import
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


def main(script: str, *search_path: str) -> None:
    """Run a server in its own interpreter."""
    parent_pid = os.getppid()
    os.environ.pop("VIRTUAL_ENV", None)
    sys.path[:0] = search_path
    importlib.import_module("nemo_gym.processes.ending").end_with_parent(parent_pid)
    run_script(script)


if __name__ == "__main__":
    main(*sys.argv[1:])
