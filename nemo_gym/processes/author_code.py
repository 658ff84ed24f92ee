"""The place in an author's code at which an exception was raised."""

from __future__ import annotations

import traceback
from pathlib import Path

from nemo_gym.names import SERVER_KINDS


def place_of(error: BaseException) -> str | None:
    """Return `<kind>/<name>/<file>:<line>` of the innermost frame in a server's folder; None if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = Path(frame.filename).parts
        starts = [place for place, part in enumerate(parts) if part in SERVER_KINDS]
        if starts:
            return f"{Path(*parts[starts[-1] :])}:{frame.lineno}"
    return None
