"""Builds the interpreters of all kinds in `.venvs/foreign`; `resolve` only asks whether their locks can be fetched."""

from __future__ import annotations

import subprocess
import sys

from nemo_gym.sources.foreign.kinds import KINDS
from nemo_gym.sources.foreign.venvs import Venvs
from tests.foreign.conftest import FOLDER


def announce(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main(arguments: list[str]) -> None:
    for kind in KINDS.values():
        if arguments == ["resolve"]:
            command = [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--dry-run", "--ignore-installed", "--no-deps", "--require-hashes"),
                *("--only-binary", ":all:", "-r", str(kind.lock)),
            ]
            subprocess.run(command, check=True)
        else:
            Venvs(FOLDER, announce).build(kind)


if __name__ == "__main__":
    main(sys.argv[1:])
