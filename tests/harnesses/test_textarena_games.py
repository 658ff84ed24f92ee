"""Games of TextArena whose attempts are killed after each of their calls: their rows are those of undisturbed ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import yaml

from nemo_gym.mock_engine import EngineOptions, MockEngine, ModelReply
from nemo_gym.mock_engine.conversation import Message, Tool
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.keys import REPLAY_KEY
from tests.engines.attempts.durable_gym import cut_record, durable_over, find_latest, read_files, strip
from tests.harnesses.repairs import skip_unless_installed
from tests.harnesses.textarena_games import GAMES, MOST_STEPS

pytestmark = pytest.mark.harnesses
_APP = """from tests.harnesses.textarena_games import TextArenaServer

if __name__ == "__main__":
    TextArenaServer.run_webserver()
"""
_AGENT = {
    "entrypoint": "app.py",
    "resources_server": {"type": "resources_servers", "name": "games"},
    "model_server": {"type": "responses_api_models", "name": "policy_model"},
    "max_steps": MOST_STEPS,
}


class Moves:
    """Makes the moves of a game, one after the other."""

    def __init__(self, game: str) -> None:
        self.moves = GAMES[game]
        self.replies = 0

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        self.replies += 1
        return ModelReply(
            text=self.moves[sum(message["role"] == "assistant" for message in conversation) % len(self.moves)]
        )


def write_environment(folder: Path) -> str:
    """Write the environment as a user's folder, and return its configuration."""
    app = folder / "resources_servers" / "games" / "app.py"
    app.parent.mkdir(parents=True)
    app.write_text(_APP)
    servers = {
        "games": {"resources_servers": {"games": {"entrypoint": "app.py"}}},
        "games_agent": {"responses_api_agents": {"gymnasium_agent": _AGENT}},
    }
    (folder / "games.yaml").write_text(yaml.safe_dump(servers))
    return str(folder / "games.yaml")


@pytest.mark.parametrize("game", GAMES)
async def test_a_game_killed_at_any_call_ends_with_the_row_of_an_undisturbed_one(
    game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_installed("textarena")
    monkeypatch.chdir(tmp_path)
    policy, identity = Moves(game), RolloutId(0, 0)
    row = {"responses_create_params": {"input": "Play."}, "game": game, "seed": 7}
    task = PlannedAttempt(identity, "games_agent", identity.head() + orjson.dumps(row)[1:])
    async with (
        MockEngine(EngineOptions(model="mock"), policy=policy) as engine,
        durable_over(
            tmp_path,
            engine.base_url,
            [write_environment(tmp_path)],
            count_engine_calls=lambda: policy.replies,
        ) as gym,
    ):
        whole = await gym.run(task)
        calls, files = policy.replies, read_files(find_latest(gym, task))
        assert calls >= 3
        for killed_at in range(1, calls + 1):
            gym.leave_record(task.identity, cut_record(files, killed_at, in_flight=False))
            before = policy.replies
            again = await gym.run(task)
            about: dict[str, Any] = again[REPLAY_KEY]
            assert strip(again) == strip(whole)
            assert (about["calls_replayed"], about["calls_live"]) == (killed_at, calls - killed_at)
            assert policy.replies - before == calls - killed_at
