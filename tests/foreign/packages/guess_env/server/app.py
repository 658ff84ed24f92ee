"""A number to guess: an environment of OpenEnv whose action is one whole number."""

from __future__ import annotations

import random

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Guess(Action):
    number: int


class Hint(Observation):
    text: str = ""
    guesses: int = 0


class GuessEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State(episode_id="none", step_count=0)
        self._number = 0

    def reset(self, seed=None, episode_id=None, **arguments):
        self._number = random.Random(seed).randint(1, arguments.get("most", 20))
        self._state = State(episode_id=episode_id or "none", step_count=0)
        return Hint(text="Guess a number.", done=False, reward=None)

    def step(self, action, timeout_s=None, **arguments):
        if action.number == 13:
            raise ValueError("thirteen is never said")
        self._state.step_count += 1
        is_right = action.number == self._number
        text = "right" if is_right else "higher" if action.number < self._number else "lower"
        is_over = is_right or self._state.step_count == 6
        reward = 1.0 if is_right else -0.125
        return Hint(text=text, guesses=self._state.step_count, done=is_over, reward=reward)

    @property
    def state(self):
        return self._state


app = create_app(GuessEnvironment, Guess, Hint, env_name="guess_env")
