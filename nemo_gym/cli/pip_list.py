"""`ng_pip_list`: the packages in the environment of a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, tell

_PROGRAM = """
import importlib.metadata, json, sys
found = sorted({d.name: d.version for d in importlib.metadata.distributions()}.items(), key=lambda p: p[0].lower())
if sys.argv[1] == "json":
    print(json.dumps([{"name": name, "version": version} for name, version in found], indent=2))
else:
    print("\\n".join(f"{name}=={version}" for name, version in found))
"""


class PackagesKeys(Keys):
    entrypoint: str = Field(description="The implementation: resources_servers/<name>.")
    as_json: bool = Field(False, alias="json", description="Print JSON instead of text.")


COMMAND = Command(
    name="ng_pip_list",
    summary="List the packages of the environment in which a server runs; it is built if necessary.",
    example="ng_pip_list +entrypoint=resources_servers/mcqa",
    keys=PackagesKeys,
)


def list_packages(keys: PackagesKeys) -> int:
    from nemo_gym.authoring.implementations import find_implementation
    from nemo_gym.launch.environments import Environments
    from nemo_gym.launch.plan import REQUIREMENTS_FILE

    requirements = find_implementation(keys.entrypoint, Path.cwd()).folder / REQUIREMENTS_FILE
    environments = Environments(tell)
    python = environments.choose(requirements if requirements.is_file() else None) or sys.executable
    done = subprocess.run([python, "-c", _PROGRAM, "json" if keys.as_json else "text"], check=False)
    return ExitCode.FATAL if done.returncode else ExitCode.COMPLETE


main = COMMAND.entry_point(list_packages)
