"""Garbage collection while a gym starts and serves.

All that a rollout makes in the gym is freed by reference counts when it ends (`tests/serving/test_garbage.py`), and
what imports make stays. The cyclic collector, which by default looks after every few hundred new objects, finds
nothing but what an author's code leaves. Looking costs more, the more is in flight: with thousands of rollouts a
quarter of the CPU, and the event loop stands still meanwhile, for half a microsecond an object. So it looks when
fifty thousand objects have come up that are not freed, which holds a loop for some 25 ms, and seldom at older ones.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (50_000, 50, 5)
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
