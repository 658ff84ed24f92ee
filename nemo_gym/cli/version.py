"""`ng_version`: the versions of the gym, Python and the platform."""

from __future__ import annotations

import json
import platform

from pydantic import Field

from nemo_gym import PARENT_DIR, __version__
from nemo_gym.cli.command import Command, ExitCode, Keys


class VersionKeys(Keys):
    as_json: bool = Field(False, alias="json", description="Print JSON instead of text.")


COMMAND = Command(
    name="ng_version",
    summary="Print the versions of the gym and Python, the platform and the installation folder.",
    example="ng_version +json=true",
    keys=VersionKeys,
)


def print_version(keys: VersionKeys) -> int:
    facts = {
        "nemo_gym": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "installed_in": str(PARENT_DIR),
    }
    print(
        json.dumps(facts) if keys.as_json else "\n".join(f"{name}: {value}" for name, value in facts.items())
    )
    return ExitCode.COMPLETE


main = COMMAND.entry_point(print_version)
