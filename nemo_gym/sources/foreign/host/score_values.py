"""The values of Inspect's scores as numbers. A text that is none stays one: Inspect would warn, and count it as 0."""

from __future__ import annotations

from typing import Any

_TEXTS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer."""
_TRUTHS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def read_number(value: Any) -> float | None:
    """Return a score as Inspect's metrics read it; None for a text that is no number, and for anything else."""
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    known = _TEXTS.get(value, _TRUTHS.get(value.lower()))
    if known is not None:
        return known
    try:
        return float(value)
    except ValueError:
        return None
