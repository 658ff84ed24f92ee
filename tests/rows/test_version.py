"""A row of a newer major version is refused by every reader, and a row without a version is read."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rows.identity import RolloutId, identity_at
from nemo_gym.rows.version import ROW_VERSION, is_readable, require_readable


@pytest.mark.parametrize("version", [None, ROW_VERSION, "1.0", "1.7", "0.9"])
def test_known_versions_are_read(version: str | None) -> None:
    assert is_readable(version)
    require_readable({} if version is None else {"_ng_row_version": version})


@pytest.mark.parametrize("version", ["2.0", "10.0", "", "x", "1x.0", 2, 1.0, True, []])
def test_other_versions_are_refused_with_the_place(version: object) -> None:
    assert not is_readable(version)
    with pytest.raises(ConfigError, match=r"rows.jsonl:3: the row has the version") as error:
        require_readable({"_ng_row_version": version}, Path("rows.jsonl:3"))
    assert error.value.failure.code == "newer_row_version"
    assert error.value.failure.remedy


def test_the_version_is_read_from_the_first_bytes() -> None:
    line = RolloutId(3, 1).head() + b'"reward":1.0}'
    assert orjson.loads(line)["_ng_row_version"] == ROW_VERSION
    newer = line.replace(f'"{ROW_VERSION}"'.encode(), b'"2.0"', 1)
    with pytest.raises(ConfigError, match=r"version '2\.0'"):
        identity_at(newer)
