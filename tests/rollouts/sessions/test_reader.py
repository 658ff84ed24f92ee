from __future__ import annotations

import asyncio

import pytest

from nemo_gym.failures import InputError
from nemo_gym.rollouts.sessions.reader import GroupReading
from tests.rollouts.doubles import run_virtually


def test_one_reader_at_a_time() -> None:
    reading = GroupReading()
    first = reading.begin("a", takeover=False)
    with pytest.raises(InputError, match="another reader"):
        reading.begin("b", takeover=False)
    again = reading.begin("a", takeover=False)
    assert not reading.is_current(first), "the reader has come back on another connection"
    reading.end(first)
    assert reading.is_active
    assert reading.begin("b", takeover=True) > again
    reading.end(reading.begin("b", takeover=False))
    assert not reading.is_active


def test_a_reader_waits_for_a_change_or_a_while() -> None:
    async def main() -> None:
        reading = GroupReading()
        waiting = asyncio.create_task(reading.wait())
        await asyncio.sleep(1)
        reading.wake()
        assert await waiting
        assert not await reading.wait()

    run_virtually(main())
