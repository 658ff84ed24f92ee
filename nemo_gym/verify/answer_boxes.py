r"""The boxes of a text: `\boxed{X}` and `\fbox{X}`."""

from __future__ import annotations

import re
from itertools import pairwise, takewhile, zip_longest
from typing import NamedTuple

from nemo_gym.verify._denials import is_denied

__all__ = ["find_box", "last_boxed", "write_braces"]


class Stated(NamedTuple):
    """An answer with the text after it, which may take it back."""

    answer: str
    rest: str
    lead: str = ""
    """The words before the answer on its line."""


_BARE_BOX = re.compile(r"\\(boxed|fbox)[ \t]+(-?\d[\d.,/]*(?<![.,/])|[A-Za-z](?![A-Za-z]))")


def write_braces(text: str) -> str:
    r"""Return `text` with braces around a number or a letter that a box holds without them: `\boxed 5`."""
    return _BARE_BOX.sub(r"\\\1{\2}", text) if "\\boxed " in text or "\\fbox " in text else text


_BRACES = re.compile(r"(?P<box>\\(?:boxed|fbox)\s*\{)|\\.|[{}]", re.DOTALL)


class _Box(NamedTuple):
    start: int
    """The place of the mark, before the content."""
    content_start: int
    end: int


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last complete `\boxed{…}`, of nested boxes the innermost. Runs in linear time.

    Boxes that the words around them deny or change do not count. Boxes joined by "or", "and" or a comma are one:
    "\boxed{1} or \boxed{2}" is "1 or 2". So are three boxes side by side.
    """
    stated = find_box(text)
    return stated.answer if stated else None


def find_box(text: str) -> Stated | None:
    """Return `last_boxed` and the text after it."""
    boxes = [
        box for box in reversed(_innermost(find_boxes(text))) if not is_denied(text, box.start, box.end + 1)
    ]
    if not boxes:
        return None
    content, after = text[boxes[0].content_start : boxes[0].end].strip(), boxes[0]
    is_list = _count_side_by_side(text, boxes) >= _FEWEST_IN_LIST
    for before in boxes[1:]:
        between = text[before.end + 1 : after.start]
        joint = _JOINT.fullmatch(between) if len(between) < LONGEST_JOINT else None
        if joint is None and not (is_list and _SIDE_BY_SIDE.fullmatch(between)):
            break
        other, after = text[before.content_start : before.end].strip(), before
        content = content if other == content else f"{other} {joint[1] if joint else ','} {content}"
    return Stated(content, text[boxes[0].end + 1 :])


def _count_side_by_side(text: str, boxes: list[_Box]) -> int:
    """Return how many of the boxes, the last one first, have only spaces between them."""
    beside = takewhile(
        lambda pair: _SIDE_BY_SIDE.fullmatch(text, pair[1].end + 1, pair[0].start), pairwise(boxes)
    )
    return 1 + sum(1 for _ in beside)


_FEWEST_IN_LIST = 3
"""So many boxes side by side are a list of answers. Of two, the last one counts."""
LONGEST_JOINT = 40
_JOINT = re.compile(r"[\s$*_\\()\]\[]*(or|and|,|;|/|&)(?:\s*(?:or|and|else|maybe|perhaps))*[\s$*_\\()\]\[]*")
_SIDE_BY_SIDE = re.compile(r"(?:[ \t$]|\\[ ,;:!]|\\q?quad)*")


def find_boxes(text: str) -> list[_Box]:
    """Return the complete boxes in the order of their starts."""
    open_braces: list[tuple[re.Match[str], bool]] = []
    boxes: list[_Box] = []
    for token in _BRACES.finditer(text, 0, text.rfind("}") + 1):  # what opens after the last is never closed
        if token["box"] or token[0] == "{":
            open_braces.append((token, token["box"] is not None))
        elif token[0] == "}" and open_braces:
            opening, is_box = open_braces.pop()
            if is_box:
                boxes.append(_Box(opening.start(), opening.end(), token.start()))
    return sorted(boxes)


def _innermost(boxes: list[_Box]) -> list[_Box]:
    """Return the boxes that hold no other one."""
    return [
        box for box, following in zip_longest(boxes, boxes[1:]) if not following or following.start > box.end
    ]


def cut_at_closing_brace(text: str) -> str:
    r"""Return a text up to the brace that closes one before it: "42" of "42}", which "\boxed{Answer: 42}" ends with."""
    text, depth = text.lstrip("} "), 0
    for token in _BRACES.finditer(text):
        depth += (token[0][-1] == "{") - (token[0] == "}")
        if depth < 0:
            return text[: token.start()].strip()
    return text.strip()
