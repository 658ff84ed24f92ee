"""Garbage collection while a gym starts and serves.

Nearly all that a request makes is freed by reference counts as soon as the request ends, and what imports make stays.
The cyclic collector finds next to nothing, and by default looks at every few hundred new objects, now and then through
all modules too: a twentieth of a rollout's CPU, and of a start's.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (100_000, 20, 50)
"""New objects before the youngest are looked through, and how often that is before the older ones are."""


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Within the block what is there already is left alone, and the rest is looked through less often."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
