"""Garbage collection while a gym starts and serves.

Reference counts free all objects of a rollout when it ends (`tests/serving/test_garbage.py`), and objects made by
imports are permanent. So the cyclic collector finds only cycles of an author's code. By default it runs after every few
hundred new objects, and its cost grows with the objects in flight: with 1,000 rollouts in flight it takes a tenth of
the CPU (2.52 ms a rollout instead of 2.27, inline) and blocks the event loop for 0.5 µs per object. Here it runs after
50,000 new objects, which blocks the loop for about 25 ms, and rarely visits the older generations.

At its exit the interpreter collects once more, which takes a tenth of a second for the classes of a gym's libraries.
The operating system frees them all the same, so they are excluded then, too.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (50_000, 50, 5)
"""New objects before the youngest generation is collected; collections of one generation before the next."""


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Within the block, exclude existing objects from collection and collect the rest less often.

    The collection at the process's exit is left out.
    """
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
