"""Find the names that the wheel's folders import from `nemo_gym` and ours lacks. Runs beside the wheel.

Standard input: Python files, relative to the current folder, one a line. Standard output: one JSON object a line,
`{"file", "missing": ["nemo_gym.module.name", …]}`. Imports inside functions count too.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        missing = sorted({name for name in imported_names(Path(line.strip())) if not exists(name)})
        print(json.dumps({"file": line.strip(), "missing": missing}), flush=True)


def imported_names(file: Path) -> Iterator[str]:
    """Yield every `nemo_gym.module.name` that `file` imports."""
    for element in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(element, ast.ImportFrom) and element.level == 0 and _is_gym(element.module or ""):
            yield from (f"{element.module}.{alias.name}" for alias in element.names)
        elif isinstance(element, ast.Import):
            yield from (alias.name for alias in element.names if _is_gym(alias.name))


def _is_gym(module: str) -> bool:
    return module == "nemo_gym" or module.startswith("nemo_gym.")


@cache
def exists(name: str) -> bool:
    """Return whether `name` is a module, or an attribute of the module before its last dot."""
    module, _, attribute = name.rpartition(".")
    return (bool(module) and hasattr(_module(module), attribute)) or _module(name) is not None


@cache
def _module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


if __name__ == "__main__":
    main()
