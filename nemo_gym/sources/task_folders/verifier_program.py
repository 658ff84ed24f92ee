"""The text of a `verifier.py`: the faults that every attempt would meet, found without a sandbox.

The grammar is that of this gym's Python. An image with a newer one may run what is a fault here, so a trial says more.
"""

from __future__ import annotations

import platform
import re
import symtable
from pathlib import Path

_STAR_IMPORT = re.compile(r"^\s*from\s.*\simport\s+\*", re.MULTILINE)


def find_program_fault(path: Path) -> str | None:
    """Return the reason why a `verifier.py` gives no reward; None if its text shows none. Raises OSError."""
    try:
        text = path.read_text(encoding="utf-8")
        names = symtable.symtable(text, path.name, "exec")
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg} (Python {platform.python_version()})"
    except ValueError as error:  # a NUL, or no UTF-8
        return str(error)
    if _STAR_IMPORT.search(text):
        return None
    try:
        verify = names.lookup("verify")
    except KeyError:
        return "it has no function `verify`"
    return None if verify.is_assigned() or verify.is_imported() else "it has no function `verify`"
