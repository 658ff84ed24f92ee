"""The version of a row's form, `major.minor`, in every row.

A minor version adds keys; a major one changes the meaning of a key. A row without a version is one of an older gym or
of another one, and is read like version 1.0. A reader refuses the rows of a newer major version, because it would
misread them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from nemo_gym.failures import ConfigError
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import VERSION_KEY

ROW_VERSION: Final = "1.3"
"""The version that this gym writes."""
_MAJOR: Final = 1


def is_readable(version: object) -> bool:
    """Return whether rows of `version` can be read: None, or a text `major.minor` with a known major version."""
    if version is None:
        return True
    major = version.partition(".")[0] if isinstance(version, str) else ""
    return major.isascii() and major.isdigit() and int(major) <= _MAJOR


def is_row_readable(row: AnyRow) -> bool:
    """Return whether this gym can read a row: it has a known version, or none."""
    return is_readable(row.get(VERSION_KEY))


def require_readable(row: AnyRow, place: str | Path = "the row") -> None:
    """Raise `ConfigError` for a row whose version this gym cannot read. `place` is its file and line."""
    if not is_row_readable(row):
        raise unreadable_version(row[VERSION_KEY], place)


def unreadable_version(version: object, place: str | Path) -> ConfigError:
    """Return the error for a row of a newer version."""
    return ConfigError(
        f"{place}: the row has the version {version!r}, and this gym reads versions up to {ROW_VERSION}",
        code="newer_row_version",
        param=VERSION_KEY,
        remedy="Read it with the gym that wrote it, or a newer one.",
    )
