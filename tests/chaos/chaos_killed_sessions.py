"""Two hundred kills of the trainer and of the head server's sessions: no group is lost or trained twice."""

from __future__ import annotations

import pytest

from tests.client.test_killed_sessions import play_kills


@pytest.mark.parametrize("seed", range(4))
async def test_fifty_kills(seed: int) -> None:
    await play_kills(50, seed)
