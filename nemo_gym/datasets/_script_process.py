"""The process of a script that prepares a dataset: `python -m nemo_gym.datasets._script_process SCRIPT ROOT`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def run(script: str, root: str) -> None:
    """Call the script's `prepare()`, or run the script as a program if it has none."""
    sys.argv = [script]  # the script may read the configuration, which comes from `env.yaml` alone
    sys.path[:0] = [str(Path(script).parent), root]
    prepare = runpy.run_path(script).get("prepare")
    if prepare is None:
        runpy.run_path(script, run_name="__main__")
    else:
        prepare()


if __name__ == "__main__":
    run(*sys.argv[1:])
