"""Captured screens: texts that commands print, in `tests/captured_screens/`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rich.text import Text

FOLDER = Path(__file__).parent / "captured_screens"
WIDTHS = (80, 120, 200)
LONG_NAMES = [f"environment_with_a_rather_long_name_{number:04}" for number in range(1, 13)]
"""Twelve names of 40 characters."""


def is_as_captured(name: str, lines: Iterable[str | Text]) -> bool:
    """Return whether the lines are those of `<name>.txt` in the folder. NEMO_GYM_TEST_CAPTURE=1 writes them."""
    text = "".join(f"{str(line).rstrip()}\n" for line in lines)
    file = FOLDER / f"{name}.txt"
    if os.environ.get("NEMO_GYM_TEST_CAPTURE"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    captured = file.read_text(encoding="utf-8")
    assert text == captured, f"{file.name} has changed:\n{text}"
    return True
