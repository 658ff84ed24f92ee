"""Free time between busy spans."""

from .sets import merged


def gaps(busy: list[list[int]], start: int, end: int) -> list[list[int]]:
    """Return the spans from `start` to `end` that are not busy."""
    free, at = [], start
    for begin, finish in merged(busy):
        if begin > at:
            free.append([at, min(begin, end)])
        at = max(at, finish)
        if at >= end:
            return [span for span in free if span[0] < span[1]]
    return [span for span in [*free, [at, end]] if span[0] < span[1]]


def first_slot(busy: list[list[int]], minutes: int, start: int, end: int) -> int:
    """Return the earliest start of a free slot of that length; -1 if there is none."""
    for begin, finish in gaps(busy, start, end):
        if finish - begin >= minutes:
            return begin
    return -1
