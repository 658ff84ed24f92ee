"""A new task folder, which works as it is: its solution gets 1, and nothing gets 0."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders.values import check_step_name

_SETTINGS = """\
schema_version = "1.4"
artifacts = ["/app/count.txt"]

[task]
name = "my-org/{name}"
version = "0.1.0"
description = "Count the words of a file."

[metadata]
license = "Apache-2.0"

[environment]
network_mode = "no-network"
workdir = "/app"

[agent]
timeout_sec = 600

[verifier]
timeout_sec = 120
environment_mode = "separate"
"""
_TEST = """\
#!/bin/bash
# It runs after the agent, in a fresh sandbox with the artifacts alone, and writes one finite number.
if [ "$(cat /app/count.txt 2>/dev/null | tr -d '[:space:]')" = 7 ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
"""
FILES: Final[Mapping[str, str]] = {
    "task.toml": _SETTINGS,
    "instruction.md": "Count the words of /app/text.txt, and write the number to /app/count.txt.\n",
    "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nCOPY text.txt .\n",
    "environment/text.txt": "the quick brown fox\njumps over dogs\n",
    "tests/test.sh": _TEST,
    "solution/solve.sh": "#!/bin/bash\nwc -w < /app/text.txt > /app/count.txt\n",
}


def write_task(folder: Path) -> list[Path]:
    """Write a new task folder and return its files. Raises ConfigError if it exists, or cannot be made."""
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise ConfigError(
            f"{folder} is a file, and a task is a folder.",
            code="folder_exists",
            remedy="Choose another name for the task. `gym dataset pull` unpacks an archive of tasks.",
        )
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} exists and is not empty.",
            code="folder_exists",
            remedy="Choose another name for the task.",
        )
    try:
        check_step_name(folder.name)
    except ValueError as error:
        raise ConfigError(f"A task cannot have this name: {error}.", code="invalid_name") from error
    name = re.sub(r"[^A-Za-z0-9._-]", "-", folder.name).lstrip("._-") or "task"
    try:
        for path, text in FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text.replace("{name}", name), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}.",
            code="folder_exists",
            remedy="Choose another place for the task.",
        ) from error
    return [folder / path for path in FILES]
