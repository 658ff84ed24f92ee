"""The measured episodes score 1, and have the stated numbers of hops and model calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.loading import load
from nemo_gym.launch.inline import inline
from nemo_gym.mock_engine.process import EngineProcess
from perf.episodes import EPISODES, Episode
from perf.rollouts import BenchKeys, Setting, overrides


@pytest.mark.parametrize("name", EPISODES)
async def test_an_episode_takes_the_hops_that_its_floor_is_made_of(name: str, tmp_path: Path) -> None:
    episode = EPISODES[name]
    with EngineProcess(episode.engine_options(0.0, tmp_path)) as engine:
        row, answered = await _played(episode, engine)
        generated = engine.stats()["requests"]["/v1/chat/completions"]
    assert row["reward"] == 1.0
    assert generated == episode.model_calls
    assert (answered, answered - 1 + generated) == episode.hops


async def _played(episode: Episode, engine: EngineProcess) -> tuple[dict[str, Any], int]:
    """The scored row, and how many requests the gym's servers were sent."""
    async with inline(load(overrides(episode, engine), env_path=None)) as gym:
        counted = [_Counted(app) for app in gym.transport.apps.values()]
        gym.transport.apps.update(zip(gym.transport.apps, counted, strict=True))
        row = await gym.run(episode.agent, episode.row)
        return row, sum(app.requests for app in counted)


class _Counted:
    def __init__(self, app: Any) -> None:
        self.app, self.requests = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        await self.app(scope, receive, send)


def test_without_keys_what_takes_minutes_is_left_out() -> None:
    settings = BenchKeys().settings()
    assert settings[Setting("inline", "tool-calling", 0.0)] == (1, 64, 1_024, 4_096)
    assert settings[Setting("process", "tool-calling", 2.0)] == (1_024, 4_096, 10_000)
    assert Setting("process", "20-turn", 2.0) not in settings


def test_a_key_makes_it_the_whole_product() -> None:
    settings = BenchKeys(in_flight=[64]).settings()
    assert len(settings) == 2 * 3 * 2
    assert set(map(tuple, settings.values())) == {(64,)}
    chosen = BenchKeys(placements=["inline"], episodes=["20-turn"], latencies_s=[2.0])
    assert list(chosen.settings()) == [Setting("inline", "20-turn", 2.0)]
