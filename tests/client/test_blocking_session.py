from __future__ import annotations

import asyncio
import threading

import pytest

from nemo_gym.client import Gym, GymAddress
from tests.client.gyms import TOKEN, gym_in_a_thread, rows


def test_a_session_works_in_synchronous_code_and_within_a_running_event_loop() -> None:
    with gym_in_a_thread() as gym:
        client = Gym(GymAddress(gym.url, TOKEN))

        def train() -> list[str]:
            with client.session(group_size=2) as session:
                session.submit(rows(3), keys=list("abc"), ends=True)
                found = []
                for group in session:
                    session.consumed(group)
                    found.append(group.key)
                return sorted(found)

        async def in_a_notebook() -> list[str]:
            return train()

        assert train() == list("abc")
        assert asyncio.run(in_a_notebook()) == list("abc")


def test_every_call_reaches_the_session() -> None:
    with (
        gym_in_a_thread() as gym,
        Gym(GymAddress(gym.url, TOKEN)).session(group_size=1, groups_per_step=1) as session,
    ):
        session.pause()
        session.submit(rows(3), keys=list("abc"))
        session.cancel("a")
        session.requeue("b")
        session.set(num_samples_in_parallel=2)
        session.set_version(4)
        assert session.version == 4
        assert session.describe()["run"]["phase"] == "paused"
        found = {(task["key"], task["round"]): task.get("cancelled") for task in session.state()["tasks"]}
        assert found == {("a", 0): "asked", ("b", 0): "asked", ("b", 1): None, ("c", 0): None}
        session.resume()
        session.drain()
        assert {group.key for group in session.groups(cancellations=True)} <= set("abc")
        session.detach()


def test_weights_are_pushed_in_the_thread_of_the_trainer() -> None:
    with (
        gym_in_a_thread() as gym,
        Gym(GymAddress(gym.url, TOKEN)).session(group_size=1) as session,
    ):
        with session.update_policy(2):
            pushed_by = threading.current_thread()
        assert pushed_by is threading.main_thread()
        assert session.version == 2
        with pytest.raises(ValueError, match="no weights"), session.update_policy(3):
            raise ValueError("no weights")
        assert session.version == 2
        assert session.describe()["run"]["phase"] == "running"
