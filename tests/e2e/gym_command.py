"""The command `gym` in a process of its own, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

GYM = (sys.executable, "-c", "from nemo_gym.cli import main; main()")


def run_gym(
    folder: Path, environment: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in `folder` to its end."""
    return subprocess.run(
        [*GYM, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
