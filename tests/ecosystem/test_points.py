"""The table of the ecosystem's points names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from nemo_gym import PARENT_DIR

TABLE = Path(__file__).with_name("README.md")
POINTS = 15


def test_every_point_names_tests_that_exist() -> None:
    rows = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d+\. ", line)]
    assert [int(row.split(".")[0].strip("| ")) for row in rows] == list(range(1, POINTS + 1))
    for row in rows:
        files = re.findall(r"`((?:tests|responses_api_models)/[^`]+)`", row)
        assert files, row
        assert [file for file in files if not (PARENT_DIR / file).is_file()] == []
