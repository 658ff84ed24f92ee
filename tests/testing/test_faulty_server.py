"""The faulty resources server follows its plan and counts its effects."""

from __future__ import annotations

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.testing.faulty_server import FaultyServer
from tests.testing.faulty import faulty


async def test_without_faults_it_counts() -> None:
    async with faulty() as client:
        for _ in range(3):
            reply = await client.post("/add", amount=2)
        assert reply.json() == {"count": 6}
        saw = await client.saw()
    assert (saw["effects"], saw["executed"]["add"], saw["sessions"]["open"]) == (6, 3, 1)


def test_a_plan_with_an_unknown_fault_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="'explode' is not a fault"):
        FaultyServer.standalone(faults=[{"do": "explode"}]).setup_webserver()
