"""Limits of documents. Models write them, so that size and nesting are bounded and nothing may run or expand."""

from __future__ import annotations

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 100


class DocumentError(ValueError):
    """The text is not a valid or safe document of the format: an error of the answer."""


def too_deep(line: int | None = None) -> DocumentError:
    """Return the error of a document that is nested more than `MAX_DEPTH` levels deep."""
    where = f"line {line}: " if line is not None else ""
    return DocumentError(f"{where}the document is nested more than {MAX_DEPTH} levels deep")
