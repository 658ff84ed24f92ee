"""The types of the instructions' parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints


def _only_member(value: object) -> object:
    """Unwrap a list of one word, as some datasets write it."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(_only_member)]
"""One or more words, without surrounding white space."""
Phrases = Annotated[list[Phrase], Field(min_length=1)]
Character = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1)]
Count = Annotated[int, Field(ge=0)]
Position = Annotated[int, Field(ge=1)]
"""Counted from 1."""
Percentage = Annotated[float, Field(ge=0, le=100)]
Relation = Literal["less than", "at most", "exactly", "at least", "more than"]


def holds(count: int, relation: Relation, threshold: int) -> bool:
    """Return whether "`count` is `relation` `threshold`" holds."""
    return {
        "less than": count < threshold,
        "at most": count <= threshold,
        "exactly": count == threshold,
        "at least": count >= threshold,
        "more than": count > threshold,
    }[relation]
