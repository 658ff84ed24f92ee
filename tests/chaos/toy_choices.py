"""A toy environment whose value is known: four choices, and the reward 1 for at least three times "right"."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from random import Random
from typing import Any

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.mock_engine import ModelReply
from nemo_gym.mock_engine.conversation import Message, Tool
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.resources.gymnasium import GymnasiumServer, StepResult
from nemo_gym.verify.answers import final_text

STEPS, NEEDED = 4, 3


class CoinPolicy:
    """Chooses each side with the probability one half."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        return ModelReply(text=rng.choice(("left", "right")))


class ToyChoices(GymnasiumServer):
    config: BaseResourcesServerConfig

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        self.session_state[session_id] = []
        return "Left or right?", {}

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> StepResult:
        choices: list[str] = self.episode(session_id)
        choices.append(final_text(action))
        is_over = len(choices) == STEPS
        reward = float(is_over and choices.count("right") >= NEEDED)
        return f"You have chosen {len(choices)} times. Left or right?", reward, is_over, False, {}


def compute_value(choices: Sequence[str]) -> float:
    """Return the probability of the reward after these choices."""
    left, needed = STEPS - len(choices), NEEDED - list(choices).count("right")
    return sum(comb(left, rights) for rights in range(max(needed, 0), left + 1)) / 2.0**left
