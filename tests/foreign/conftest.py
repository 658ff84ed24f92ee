"""Interpreters with the packages of foreign environments, which `make test-foreign` builds in `.venvs/foreign`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.foreign.kinds import KINDS
from nemo_gym.sources.foreign.venvs import Venvs

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venvs" / "foreign"


@pytest.fixture(scope="session")
def find_python() -> Callable[[str], Path]:
    """Return the interpreter of a kind; skip without it."""

    def find(kind: str) -> Path:
        try:
            return Venvs(FOLDER).find(KINDS[kind])
        except ConfigError as error:
            pytest.skip(f"{error} (make test-foreign)")

    return find
