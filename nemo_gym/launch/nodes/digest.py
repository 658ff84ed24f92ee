"""The digest of a folder's Python code, so that a node with other code is found before anything starts."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest_folder(folder: Path) -> str | None:
    """Return a digest of the names and contents of all Python files below `folder`; None if there is no folder."""
    if not folder.is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
