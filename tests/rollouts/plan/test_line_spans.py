"""Lines with one fault are shown as spans."""

from __future__ import annotations

import pytest

from nemo_gym.rollouts.plan.line_spans import LineSpans


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([3], "3"),
        ([1, 2, 3], "1-3"),
        ([1, 3, 3, 4, 9], "1,3-4,9"),
        (range(1, 10_001), "1-10000"),
        (range(1, 20, 2), "1,3,5,7,9 and 5 more"),
        ([*range(1, 13, 2), 12, 13], "1,3,5,7,9 and 3 more"),
    ],
)
def test_consecutive_lines_are_a_span(lines: list[int], text: str) -> None:
    spans = LineSpans()
    for line in lines:
        spans.add(line)
    assert str(spans) == text
    assert (spans.count, spans.first) == (len(set(lines)), next(iter(lines)))
    assert spans.describe() == ("" if spans.count == 1 else f" (lines {text})")
