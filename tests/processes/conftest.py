"""A fork server without preloaded modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from nemo_gym.processes.fork_server import ForkServer


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with closing(ForkServer()) as server:
        yield server
