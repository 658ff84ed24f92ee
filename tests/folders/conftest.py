"""Harbor, in its own environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def harbor() -> Path:
    """Return the folder of Harbor's programs; skip without them."""
    found = Path(os.environ.get("NEMO_GYM_HARBOR", ROOT / ".venvs" / "harbor" / "bin"))
    if not (found / "harbor").exists():
        pytest.skip(f"Harbor 0.25 is not installed in {found} (make test-folders)")
    return found
