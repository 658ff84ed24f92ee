"""What a document may not do. Models write these: nothing in them may run, expand or nest without end."""

from __future__ import annotations

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 100


class DocumentError(ValueError):
    """The text is no document of the format, or not a safe one: the answer's fault."""


def too_deep(line: int | None = None) -> DocumentError:
    """The error of a document that nests more than `MAX_DEPTH` deep."""
    where = f"line {line}: " if line is not None else ""
    return DocumentError(f"{where}the document nests more than {MAX_DEPTH} deep")
