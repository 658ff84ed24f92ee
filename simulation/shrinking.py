"""Delta debugging: a minimal subset of a list for which a predicate still holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def fewest(count: int, does_it: Callable[[Sequence[int]], bool]) -> tuple[int, ...]:
    """Return a minimal set of numbers below `count` for which `does_it` holds. It must hold for all of them together.

    A solution of no or one element is always found. A larger result is locally minimal: no single element can be left
    out (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).
    """
    if does_it(()):
        return ()
    for number in range(count if count > 1 else 0):
        if does_it((number,)):
            return (number,)
    return _minimized(tuple(range(count)), does_it)


def _minimized(kept: tuple[int, ...], does_it: Callable[[Sequence[int]], bool]) -> tuple[int, ...]:
    pieces = 2
    while len(kept) > 1:
        size = -(-len(kept) // pieces)
        rests = (kept[:start] + kept[start + size :] for start in range(0, len(kept), size))
        smaller = next((rest for rest in rests if does_it(rest)), None)
        if smaller is not None:
            kept, pieces = smaller, max(2, pieces - 1)
        elif size == 1:
            break
        else:
            pieces = min(len(kept), 2 * pieces)
    return kept
