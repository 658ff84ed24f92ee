"""Games of TextArena: `textarena:Mastermind-v0`. A task is a seed; every seat plays through the gym.

An observation of `-v0` is the whole history. A seat gets its news alone where the history goes on from what it has
seen, so that a conversation holds each text once: the observations of a seat, put together, are the text of the game.
Games seed Python's global random numbers, so a process plays one at a time.
"""

from __future__ import annotations

import difflib
from typing import Any

import textarena

from ..faults import HostError, check_reward
from ..packages import compute_digest, describe_package

PACKAGE = "textarena"
MOST_PLAYERS = 10


def build(name: str, options: dict[str, Any]) -> Game:
    return Game(name, options)


class Game:
    """A game by its name, and the match that is being played."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        known = textarena.envs.registration.ENV_REGISTRY
        if name not in known:
            near = difflib.get_close_matches(name, known, 3) or sorted(known)[:3]
            raise HostError("not_found", f"TextArena has no game {name!r}, but {', '.join(near)}")
        unknown = set(options) - {"players", "arguments"}
        if unknown:
            raise HostError("bad_request", f"a game has no options {', '.join(sorted(unknown))}")
        self._name = name
        self._options = options
        self._arguments = options.get("arguments") or {}
        self._players = options.get("players") or self._find_players()
        self._game: Any = None
        self._seen: dict[int, str] = {}

    def describe(self) -> dict[str, Any]:
        package = describe_package(PACKAGE)
        return {
            **package,
            "name": self._name,
            "version": package["package_version"],
            "digest": compute_digest([PACKAGE], None, {"name": self._name, **self._options}),
            "loop": "ours",
            "tasks": None,
            "infinite": True,
            "seats": [{"name": str(seat), "trainable": True} for seat in range(self._players)],
            "rewards": [{"name": "reward", "weight": 1.0, "range": None}],
            "reward_rule": "last",
            "seeded": "all",
            "needs": {"network": False, "writes": False},
            "concurrency": 1,
        }

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]:
        seeds = range(seed + cursor, seed + cursor + limit)
        tasks = [{"id": f"{self._name}/{each}", "prompt": None, "data": {"seed": each}} for each in seeds]
        return {"tasks": tasks, "cursor": cursor + limit}

    def open(self, task: dict[str, Any], seed: int) -> dict[str, Any]:
        self._game = textarena.make(self._name, **self._arguments)
        self._game.reset(num_players=self._players, seed=seed)
        self._seen = {}
        return self._look()

    def step(self, seat: int, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        if self._game is None:
            raise HostError("bad_request", "no game is open")
        moving = self._game.state.current_player_id
        if moving != seat:
            raise HostError("bad_request", f"seat {moving} is to move, not seat {seat}")
        done, _ = self._game.step(text)
        if not done:
            return {**self._look(), "done": False}
        return {**self._finish(), "done": True, "observation": None, "seat": None}

    def close(self) -> dict[str, Any]:
        self._game = None
        return {}

    def _look(self) -> dict[str, Any]:
        """Return the seat that moves next, and its news."""
        seat, text = self._game.get_observation()
        seen = self._seen.get(seat, "")
        self._seen[seat] = text
        goes_on = bool(seen) and text.startswith(seen)
        return {"seat": seat, "observation": text[len(seen) :] if goes_on else text, "goes_on": goes_on}

    def _finish(self) -> dict[str, Any]:
        rewards, about = self._game.close()
        self._game = None
        if rewards is None:
            raise HostError("bad_reward", "the game ended without a reward")
        checked = {str(seat): check_reward(value, f"seat {seat}") for seat, value in rewards.items()}
        infos = {str(seat): dict(info) for seat, info in about.items()}
        return {"rewards": checked, "infos": infos}

    def _find_players(self) -> int:
        """Return the least number of players, of which the class of the game's state must be one.

        Some games for several take one player without being games for one.
        """
        problems = []
        for players in range(1, MOST_PLAYERS + 1):
            try:
                game = textarena.make(self._name, **self._arguments)
                game.reset(num_players=players, seed=0)
                state = type(game.state).__name__
            except LookupError as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip(" *")]
                told = lines[0] if lines else type(error).__name__
                raise HostError("not_found", f"{self._name} needs data of NLTK: {told}") from error
            except Exception as error:  # noqa: BLE001 - games refuse a number of players by any exception
                problems.append(f"{players}: {type(error).__name__}: {error}")
                continue
            if (players == 1) == (state == "SinglePlayerState"):
                return players
        raise HostError("environment_error", f"{self._name} starts with no number of players: {problems[0]}")
