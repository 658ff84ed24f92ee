"""Real trainers: `make test-train` builds what they need; elsewhere they are skipped."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

_NEEDED = ("torch", "trl", "datasets", "transformers")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker(pytest.mark.train)
        item.add_marker(pytest.mark.filterwarnings("default"))  # trainers warn of their own libraries
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}: make test-train"))
