"""The table of instruction kinds: id, wording and checker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

CheckerT = TypeVar("CheckerT", bound=Callable[..., bool])


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of instruction."""

    id: str
    """`family:name`, as in public datasets."""
    wording: str
    """The instruction in one sentence, with its parameters in braces."""
    is_followed: Callable[..., bool]
    """The checker, called as `is_followed(text, **parameters)`; its keyword-only parameters define the kind's."""


KINDS: dict[str, Kind] = {}
"""All kinds by id; complete after the import of `resources_servers.instruction_following.instructions.catalog`."""


def instruction(*ids: str, wording: str) -> Callable[[CheckerT], CheckerT]:
    """Register the decorated function as the checker of `ids`, which are synonyms."""

    def register(checker: CheckerT) -> CheckerT:
        for kind_id in ids:
            if kind_id in KINDS:
                raise ValueError(f"The instruction {kind_id!r} is registered twice.")
            KINDS[kind_id] = Kind(kind_id, wording, checker)
        return checker

    return register
