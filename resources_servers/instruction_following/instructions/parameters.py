"""The types of instructions' parameters, as rows write them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints


def _only_member(value: object) -> object:
    """Some datasets wrap a single word in a list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(_only_member)]
"""A word or several, without white space around it."""
Phrases = Annotated[list[Phrase], Field(min_length=1)]
Character = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1)]
Count = Annotated[int, Field(ge=0)]
Position = Annotated[int, Field(ge=1)]
"""Counted from 1."""
Percentage = Annotated[float, Field(ge=0, le=100)]
Relation = Literal["less than", "at most", "exactly", "at least", "more than"]


def holds(count: int, relation: Relation, threshold: int) -> bool:
    """Whether "`count` is `relation` `threshold`"."""
    return {
        "less than": count < threshold,
        "at most": count <= threshold,
        "exactly": count == threshold,
        "at least": count >= threshold,
        "more than": count > threshold,
    }[relation]
