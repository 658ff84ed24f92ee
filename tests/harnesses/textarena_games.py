"""Single-player games of TextArena behind a server, as a user would wrap them. `install.sh` installs it.

TextArena draws from the random numbers of its process, so each session has a state of its own for them.
"""

from __future__ import annotations

import random
import sys
from importlib import import_module
from typing import Any, NamedTuple

from nemo_gym import PARENT_DIR
from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.resources.gymnasium import GymnasiumServer, StepResult
from nemo_gym.verify.answers import final_text

FOLDER = PARENT_DIR / ".venvs" / "harnesses" / "textarena"
GAMES = {
    "2048-v0": ("[Up]", "[Left]", "[Down]", "[Right]", "[Up]"),
    "Bandit-v0": ("[red]", "[blue]", "[green]", "[red]", "[yellow]"),
    "Blackjack-v0": ("[Hit]", "[Stand]", "[Hit]", "[Stand]", "[Stand]"),
    "FifteenPuzzle-v0": ("[up]", "[left]", "[down]", "[right]", "[up]"),
    "FrozenLake-v0": ("[right]", "[down]", "[down]", "[right]", "[down]"),
    "GuessTheNumber-v0": ("[10]", "[5]", "[15]", "[2]", "[18]"),
    "LightsOut-v0": ("[0 0]", "[1 1]", "[2 2]", "[3 3]", "[4 4]"),
    "Mastermind-v0": ("[1 2 3 4]", "[2 3 4 5]", "[3 4 5 6]", "[6 5 4 3]", "[1 3 5 2]"),
    "Minesweeper-v0": ("[0 0]", "[4 4]", "[7 7]", "[2 5]", "[6 1]"),
    "Secretary-v0": ("[continue]", "[continue]", "[continue]", "[accept]"),
    "TowerOfHanoi-v0": ("[A C]", "[A B]", "[C B]", "[A C]", "[B A]"),
}
"""Moves of each game, legal or not: an answer to an illegal one is an observation, too."""
MOST_STEPS = 5


class Play(NamedTuple):
    """A game and the state of its random numbers."""

    game: Any
    chance: random.Random


class TextArenaServer(GymnasiumServer):
    """The game `game` of the task row, with its `seed`."""

    config: BaseResourcesServerConfig

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        if str(FOLDER) not in sys.path:
            sys.path.append(str(FOLDER))
        textarena = import_module("textarena")  # it is in a folder of its own
        play = Play(textarena.make(metadata["game"]), random.Random(metadata["seed"]))
        with Chance(play.chance):
            play.game.reset(num_players=1, seed=metadata["seed"])
        self.session_state[session_id] = play
        return self._observe(play), {}

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> StepResult:
        play: Play = self.episode(session_id)
        with Chance(play.chance):
            is_over, info = play.game.step(final_text(action))
        if not is_over:
            return self._observe(play), 0.0, False, False, {}
        rewards, _ = play.game.close()
        return str(info.get("reason")), float(rewards[0]), True, False, {}

    def _observe(self, play: Play) -> str:
        _, observation = play.game.get_observation()
        return str(observation)


class Chance:
    """Within the block, the module `random` continues the numbers of a session."""

    def __init__(self, own: random.Random) -> None:
        self._own = own
        self._others: Any = None

    def __enter__(self) -> None:
        self._others = random.getstate()
        random.setstate(self._own.getstate())

    def __exit__(self, *_: object) -> None:
        self._own.setstate(random.getstate())
        random.setstate(self._others)
