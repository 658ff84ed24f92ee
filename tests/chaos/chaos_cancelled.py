"""A command or a trainer ends with a hundred rollouts in flight: the engine's requests end within a second."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from nemo_gym.client import AsyncGym
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from tests.chaos.faulty_gym import faulty_run, task, tell
from tests.client.gyms import TOKEN, rows, running_gym
from tests.waiting import until, wait_until

IN_FLIGHT = 100


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_engine_sees_a_hundred_disconnects_within_a_second(
    number: signal.Signals, tmp_path: Path
) -> None:
    tasks = [task(f"task {place}") for place in range(IN_FLIGHT)]
    with (
        EngineProcess(EngineOptions(faults=[{"do": "hang"}])) as engine,
        faulty_run(tmp_path, engine.base_url, tasks, f"+num_samples_in_parallel={IN_FLIGHT}") as run,
    ):
        wait_until(lambda: engine.stats()["in_flight"] == IN_FLIGHT)
        if number is not signal.SIGKILL:
            run.process.send_signal(number)  # drains; the next one cuts
            time.sleep(0.2)
        sent = time.monotonic()
        run.process.send_signal(number)
        wait_until(lambda: engine.stats()["disconnects"] == IN_FLIGHT)
        seconds = time.monotonic() - sent
        exit_code, _ = run.finish(30)
    tell(f"cancelled by {number.name}", disconnects=IN_FLIGHT, seconds=round(seconds, 2), exit_code=exit_code)
    assert seconds < 1.0
    assert exit_code == (-signal.SIGKILL if number is signal.SIGKILL else 3)


async def test_a_trainer_that_leaves_cancels_every_request_and_closes_every_session_within_a_second() -> None:
    async with running_gym(faults=[{"do": "hang"}]) as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        reading = asyncio.ensure_future(
            anext(gym.rollouts(rows(IN_FLIGHT), num_samples_in_parallel=IN_FLIGHT))
        )
        await until(lambda: running.engine.stats.in_flight == IN_FLIGHT)
        left = time.monotonic()
        reading.cancel()
        await until(lambda: running.engine.stats.disconnects == IN_FLIGHT and running.open_sessions == 0)
        seconds = time.monotonic() - left
    tell("a trainer that leaves", disconnects=IN_FLIGHT, open_sessions=0, seconds=round(seconds, 2))
    assert seconds < 1.0
