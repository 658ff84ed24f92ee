"""Harbor's validator accepts our trajectories of rows of every kind, and refuses what we refuse."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nemo_gym.json_objects import dump_json
from nemo_gym.sources.atif.media import MediaFolder
from nemo_gym.sources.atif.trajectory import AtifTrajectory
from nemo_gym.sources.atif.writing import write_trajectory
from tests.sources.atif.test_trajectory import WRONG
from tests.sources.atif.trajectory_rows import build_rows

pytestmark = pytest.mark.folders
_VALIDATE = """
import json, sys
from pathlib import Path
from harbor.utils.trajectory_validator import TrajectoryValidator
for name in sys.argv[1:]:
    validator = TrajectoryValidator()
    valid = validator.validate(Path(name))
    print(json.dumps([Path(name).stem, valid, validator.errors]))
"""


def validate(harbor: Path, files: list[Path]) -> dict[str, list[Any]]:
    done = subprocess.run(
        [harbor / "python", "-c", _VALIDATE, *files], capture_output=True, text=True, check=True
    )
    return {name: errors for name, _, errors in map(json.loads, done.stdout.splitlines())}


async def test_trajectories_of_rows_of_every_kind_are_valid(harbor: Path, tmp_path: Path) -> None:
    media, files = MediaFolder(tmp_path), []
    for number, row in enumerate(await build_rows()):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_bytes(dump_json(write_trajectory(row, media).content))
    found = validate(harbor, files)
    assert len(found) >= 100
    assert {name: errors for name, errors in found.items() if errors} == {}


def test_what_we_refuse_is_refused(harbor: Path, tmp_path: Path) -> None:
    files = []
    for name, content in WRONG.items():
        with pytest.raises(ValidationError):
            AtifTrajectory.model_validate(content)
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(content))
    assert [name for name, errors in validate(harbor, files).items() if not errors] == []
