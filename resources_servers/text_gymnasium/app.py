"""Adapter that serves a text-based Gymnasium environment as a step-style environment."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.failures import InputError
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.resources.gymnasium import GymnasiumServer, StepResult, last_action
from nemo_gym.rows.keys import TASK_INDEX_KEY
from nemo_gym.rows.models import read_task
from resources_servers.text_gymnasium.game import Game


class EnvironmentOptions(BaseModel):
    """The options of one environment."""

    model_config = ConfigDict(extra="forbid")

    action_names: list[str] | None = None
    """The names of discrete actions in the order of their numbers; they override the built-in names."""
    invalid_action_reward: float = 0.0
    """The reward for an answer without an action. When steps have a cost, it must be lower, so that giving up does not
    pay."""


def _default_environments() -> dict[str, EnvironmentOptions]:
    return {
        "FrozenLake-v1": EnvironmentOptions(),
        "Taxi-v4": EnvironmentOptions(invalid_action_reward=-20),
        "CliffWalking-v1": EnvironmentOptions(invalid_action_reward=-100),
    }


class TextGymnasiumConfig(BaseResourcesServerConfig):
    environments: dict[str, EnvironmentOptions] = Field(default_factory=_default_environments)
    """The allowed environments by id; `package.module:Name-v0` imports the module that registers the id."""
    max_invalid_actions: int = Field(default=3, ge=1)
    """Number of consecutive answers without an action that ends the episode."""


class TextGymnasiumTask(BaseModel):
    """The fields of a task row."""

    env_id: str
    env_kwargs: dict[str, Any] = {}
    """The keyword arguments of the environment."""
    seed: int | None = Field(default=None, ge=0)
    task_index: int | None = Field(default=None, alias=TASK_INDEX_KEY)
    """Used when there is no seed, so that all attempts at a task have the same episode."""
    max_episode_steps: int | None = Field(default=None, ge=1)
    """Overrides the environment's own limit."""


class Play:
    """A game and the number of consecutive answers without an action."""

    def __init__(self, game: Game, options: EnvironmentOptions) -> None:
        self.game = game
        self.options = options
        self.invalid = 0

    @property
    def rules(self) -> str:
        return f"Actions: {self.game.actions}. End your answer with <action>...</action>."


class TextGymnasiumServer(GymnasiumServer):
    config: TextGymnasiumConfig

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        task = read_task(TextGymnasiumTask, metadata)
        options = self.config.environments.get(task.env_id)
        if options is None:
            raise InputError(
                f"the environment {task.env_id!r} is not among those of `{self.config.name}`: "
                f"{', '.join(self.config.environments)}",
                code="unknown_environment",
                param="env_id",
                remedy="Add it to `environments` of the server.",
            )
        await self._close_game(session_id)
        game = await asyncio.to_thread(
            Game,
            task.env_id,
            task.env_kwargs,
            seed=task.task_index if task.seed is None else task.seed,
            max_episode_steps=task.max_episode_steps,
            action_names=options.action_names,
        )
        play = Play(game, options)
        self.session_state[session_id] = play
        return f"{game.observation}\n\n{play.rules}", game.info

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> StepResult:
        play: Play = self.episode(session_id)
        chosen = play.game.read_action(last_action(action))
        if chosen is None:
            play.invalid += 1
            is_over = play.invalid >= self.config.max_invalid_actions
            reward = play.options.invalid_action_reward
            return f"That is no action. {play.rules}", reward, is_over, False, {"result": "invalid_action"}
        play.invalid = 0
        outcome = await asyncio.to_thread(play.game.step, chosen)
        return outcome.observation, outcome.reward, outcome.terminated, outcome.truncated, outcome.info

    async def release_session(self, session_id: str | None) -> None:
        await self._close_game(session_id)

    async def _close_game(self, session_id: str | None) -> None:
        play: Play | None = self.session_state.pop(session_id, None)
        if play is not None:
            await asyncio.to_thread(play.game.close)


if __name__ == "__main__":
    TextGymnasiumServer.run_webserver()
