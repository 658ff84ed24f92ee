from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from nemo_gym.client import AsyncGym, Gym
from nemo_gym.failures import ConfigError, GymError
from tests.client.gyms import TOKEN, gym_in_a_thread, running_gym


def post(url: str, key: str) -> int:
    headers = {"x-api-key": key, "content-type": "application/json"}
    try:
        with urlopen(Request(f"{url}/responses", b'{"input": "hi"}', headers)) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def test_an_agent_s_own_calls_are_recorded_until_the_end_of_the_block() -> None:
    with gym_in_a_thread() as running:
        gym = Gym.connect(url=running.url, token=TOKEN)
        with gym.rollout(server="policy_model", max_calls=5) as rollout:
            assert post(rollout.base_url, rollout.key) == 200
            assert not rollout.read()["sealed"]
        assert post(rollout.base_url, rollout.key) == 409
        record = rollout.read()
        assert record["sealed"]
        assert len(record["calls"]) == 1
        rollout.delete()
        with pytest.raises(GymError, match="no rollout"):
            rollout.read()
        assert rollout.key not in repr(rollout)


async def test_an_event_loop_has_the_same() -> None:
    async with running_gym() as running:
        gym = AsyncGym.connect(url=running.url, token=TOKEN)
        async with gym.rollout("mine", server="policy_model") as rollout:
            assert rollout.base_url.endswith("/ng-rollout/mine/v1")
            assert rollout.key not in repr(rollout)
            assert (await rollout.read())["calls"] == []
            await rollout.delete()


def test_an_unknown_server_is_named() -> None:
    with gym_in_a_thread() as running:
        gym = Gym.connect(url=running.url, token=TOKEN)
        with pytest.raises(ConfigError, match="no model server named `policy`"), gym.rollout(server="policy"):
            raise AssertionError("unreachable")
