"""The table of instruction kinds: id, what it asks for, and the function that checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

CheckerT = TypeVar("CheckerT", bound=Callable[..., bool])


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of instruction."""

    id: str
    """`family:name`, as datasets write it."""
    wording: str
    """What is asked for, in one sentence, with the parameters in braces."""
    is_followed: Callable[..., bool]
    """`is_followed(text, **parameters)`. Its keyword-only parameters, with their types, are the kind's own."""


KINDS: dict[str, Kind] = {}
"""By id; complete once `resources_servers.instruction_following.instructions.catalog` is imported."""


def instruction(*ids: str, wording: str) -> Callable[[CheckerT], CheckerT]:
    """Register the decorated function as the checker of the kinds `ids`, which mean the same."""

    def register(checker: CheckerT) -> CheckerT:
        for kind_id in ids:
            if kind_id in KINDS:
                raise ValueError(f"The instruction {kind_id!r} is registered twice.")
            KINDS[kind_id] = Kind(kind_id, wording, checker)
        return checker

    return register
