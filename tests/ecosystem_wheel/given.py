"""Values that a user gives to configurations. Probes import this module beside either core."""

from __future__ import annotations

import os
import re
from pathlib import Path

_VARIABLE = re.compile(r"oc\.env:\s*([A-Za-z_]\w*)\s*(?:\}|,\s*(?:null|MISSING|\$\{oc\.env))")
"""An environment variable without a default, or with null or the placeholder MISSING."""


def set_variables() -> None:
    """Set the environment variables that any YAML file below the current folder names."""
    texts = (path.read_text(encoding="utf-8") for path in Path.cwd().glob("*/*/**/*.yaml"))
    names = {name for text in texts for name in _VARIABLE.findall(text)} - os.environ.keys()
    os.environ.update({name: value_of(name) for name in names})


def value_of(name: str) -> str:
    """Return the text that a user gives for a variable or key of this name: a URL where the name says so."""
    return "http://127.0.0.1:8000" if "url" in name.lower() else "given"
