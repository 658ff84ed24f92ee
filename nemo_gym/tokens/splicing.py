"""The exact prompt of a conversation's next turn: the earlier ids followed by the template's new ids.

A chat template renders the whole history on every turn, and may render sampled text as other tokens or drop it. Only
the ids after the last answer are taken from the rendered prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

_AFTER_END = 4
"""Maximum number of ids, such as a newline, that a template writes between two turns."""


def splice(seen: Sequence[int], closed: Sequence[int], rendered: Sequence[int]) -> list[int] | None:
    """Return `seen` followed by the ids of `rendered` after the last answer; None if that position is uncertain.

    `seen` ends with the end token of the last answer. `rendered` is the template's prompt for the next turn, and
    `closed` its prompt for the messages up to that answer, without a generation prompt. Turns are counted by their end
    token, so the rendering of the turns themselves does not matter.
    """
    if not seen:
        return None
    end = seen[-1]
    if end not in closed[-_AFTER_END:]:
        return None
    turns = list(closed).count(end)
    places = [place for place, token in enumerate(rendered) if token == end]
    if len(places) < turns:
        return None
    return [*seen, *rendered[places[turns - 1] + 1 :]]
