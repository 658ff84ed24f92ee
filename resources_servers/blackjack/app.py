"""Blackjack as a step-style environment: the model hits or stands until the hand is over."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.resources.gymnasium import GymnasiumServer, StepResult, last_action
from nemo_gym.rows.keys import TASK_INDEX_KEY
from nemo_gym.rows.models import read_task
from nemo_gym.serving.panel import BoardField, Panel
from resources_servers.blackjack.game import Game, value_of

_CHOICES = "Hit or stand? End your answer with <action>...</action>."


class BlackjackTask(BaseModel):
    """The fields of a task row. The seed determines the cards; without one, the task index does."""

    seed: int | str | None = None
    task_index: int | None = Field(default=None, alias=TASK_INDEX_KEY)


class BlackjackServer(GymnasiumServer):
    config: BaseResourcesServerConfig

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        task = read_task(BlackjackTask, metadata)
        game = Game(task.task_index if task.seed is None else task.seed)
        self.session_state[session_id] = game
        return table_of(game), {}

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> StepResult:
        game: Game = self.episode(session_id)
        choice = (last_action(action) or "").lower()
        if choice == "hit":
            return end_of(game, -1.0, "bust") if game.hit() else (table_of(game), 0.0, False, False, {})
        if choice == "stand":
            reward = game.stand()
            return end_of(game, reward, {1.0: "win", 0.0: "draw", -1.0: "loss"}[reward])
        return end_of(game, -1.0, "no_action")


def table_of(game: Game) -> str:
    """Return the observation: the player's hand and the dealer's first card."""
    hand = f"Your hand: {', '.join(game.player)} (worth {value_of(game.player)})."
    return f"{hand}\nThe dealer shows: {game.dealer[0]}.\n{_CHOICES}"


def end_of(game: Game, reward: float, result: str) -> StepResult:
    info = {
        "result": result,
        "player": game.player,
        "player_value": value_of(game.player),
        "dealer": game.dealer,
        "dealer_value": value_of(game.dealer),
        "panel": panel_of(game, result).model_dump(),
    }
    return None, reward, True, False, info


def panel_of(game: Game, result: str) -> Panel:
    """Return the cards at the end of the hand, for the viewer."""
    hands = {"player": game.player, "dealer": game.dealer}
    fields = [
        BoardField(title=f"{name}: {value_of(hand)}", rows=[list(hand)]) for name, hand in hands.items()
    ]
    return Panel(title=f"The hand: {result}", fields=fields)


if __name__ == "__main__":
    BlackjackServer.run_webserver()
