from __future__ import annotations

import pytest

from nemo_gym.client import AsyncGym, GymAddress
from nemo_gym.client._session_connection import SessionConnection, is_lost
from nemo_gym.failures import InputError, TransportError
from tests.client.gyms import TOKEN, running_gym
from tests.ports import free_port


async def test_a_gym_that_is_not_there_is_tried_again_for_a_while() -> None:
    connection = SessionConnection(AsyncGym(GymAddress(f"http://127.0.0.1:{free_port()}")), reconnect_s=0.2)
    attempts = [is_last async for is_last in connection.attempts()]
    assert len(attempts) > 1
    assert attempts[-1]
    with pytest.raises(TransportError, match="no gym answers"):
        await connection.ask("GET", "")
    await connection.close()


async def test_an_unknown_session_is_lost() -> None:
    async with running_gym() as gym:
        connection = SessionConnection(AsyncGym(GymAddress(gym.url, TOKEN)), reconnect_s=1.0)
        assert await connection.ask("GET", "") == {"sessions": []}
        for reading in (connection.ask("GET", "/s"), anext(connection.read("/s/groups"))):
            with pytest.raises(InputError) as caught:
                await reading
            assert is_lost(caught.value)
        await connection.close()
