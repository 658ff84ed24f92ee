"""Sets of spans. A span is a list of a start and an end, which is not part of it."""


def merged(spans: list[list[int]]) -> list[list[int]]:
    """Return the fewest spans that cover the same points, in order. Empty spans are dropped."""
    result: list[list[int]] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if result and start <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        else:
            result.append([start, end])
    return result


def length(spans: list[list[int]]) -> int:
    """Return the number of points that the spans cover."""
    return sum(end - start for start, end in merged(spans))


def common(first: list[list[int]], second: list[list[int]]) -> list[list[int]]:
    """Return the points that both sets cover, as merged spans."""
    found = [
        [max(one[0], other[0]), min(one[1], other[1])] for one in merged(first) for other in merged(second)
    ]
    return merged(found)
