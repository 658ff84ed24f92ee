"""The overrides of each placement, for tests that run unchanged in all of them."""

from __future__ import annotations

import json
import os

KEYS_VARIABLE = "NEMO_GYM_TEST_HOSTS"
"""Holds the overrides of `hosts` as JSON, while `make test-cluster` runs a test on machines of its own."""
PLACEMENTS = ("hosts",) if KEYS_VARIABLE in os.environ else ("process", "inline")


def keys_of(placement: str) -> list[str]:
    """Return the overrides of a placement."""
    if placement != "hosts":
        return [f"+placement={placement}"]
    keys: list[str] = json.loads(os.environ[KEYS_VARIABLE])
    return keys
