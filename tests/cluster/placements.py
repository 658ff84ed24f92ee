"""The overrides of each placement, for tests that run unchanged in all of them."""

from __future__ import annotations

import json
import os

KEYS_VARIABLE = "NEMO_GYM_TEST_HOSTS"
"""Holds the overrides of a placement as JSON, while `make test-cluster` runs a test on machines of its own."""
_KEYS: list[str] = json.loads(os.environ.get(KEYS_VARIABLE, "[]"))
PLACEMENTS = tuple(key.partition("=")[2] for key in _KEYS if "placement=" in key) or ("process", "inline")


def keys_of(placement: str) -> list[str]:
    """Return the overrides of a placement."""
    return _KEYS or [f"+placement={placement}"]
