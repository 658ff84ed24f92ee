"""A runner for each kind of isolation."""

from __future__ import annotations

import pytest

from nemo_gym.sandbox.execution import (
    ConfinedRunner,
    IsolationKind,
)
from tests.sandbox.confined import make_sandbox


@pytest.fixture(params=list(IsolationKind))
def sandbox(request: pytest.FixtureRequest) -> ConfinedRunner:
    return make_sandbox(request.param)
