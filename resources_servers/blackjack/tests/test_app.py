"""Hands of blackjack: rules, gold, no-op and tricky play."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.serving.panel import BoardField, Panel
from resources_servers.blackjack.app import BlackjackServer
from resources_servers.blackjack.game import Game, best_play, value_of
from resources_servers.blackjack.prepare import main as prepare
from tests.serving.environments import text

FOLDER = Path(__file__).parents[1]
SHARED = FOLDER.parents[2] / "shared" / "data" / "environment_examples"
PARAMS = {"responses_create_params": {"input": "Deal me in."}}


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class Table:
    """Play a hand on the server with the given answers."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.client = TestClient(BlackjackServer.standalone().setup_webserver())
        self.opening: dict[str, Any] = self.client.post("/reset", json=row).json()

    def say(self, said: str) -> dict[str, Any]:
        response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [text(said)]}
        step: dict[str, Any] = self.client.post("/step", json={**self.row, "response": response}).json()
        return step


@pytest.mark.parametrize(
    ("hand", "value"),
    [("A K", 21), ("A A", 12), ("A A 9", 21), ("A 9 5", 15), ("10 J Q", 30), ("2 3", 5), ("A A A A", 14)],
)
def test_an_ace_counts_eleven_where_it_fits(hand: str, value: int) -> None:
    assert value_of(hand.split()) == value


def test_the_seed_decides_every_card() -> None:
    games = [Game(5), Game(5), Game(6)]
    for game in games:
        game.hit()
        game.stand()
    one, same, other = ((game.player, game.dealer) for game in games)
    assert one == same
    assert one != other


def test_the_end_of_a_hand_has_a_panel_with_all_cards() -> None:
    table = Table(PARAMS | {"seed": 5})
    info = table.say("<action>stand</action>")["info"]
    panel = Panel.model_validate(info["panel"])
    assert info["result"] in panel.title
    player, dealer = panel.fields
    assert isinstance(player, BoardField)
    assert isinstance(dealer, BoardField)
    assert player.rows == [info["player"]]
    assert dealer.rows == [info["dealer"]]
    assert dealer.title == f"dealer: {info['dealer_value']}"


def test_the_dealer_draws_up_to_seventeen() -> None:
    for seed in range(50):
        game = Game(seed)
        reward = game.stand()
        value = value_of(game.dealer)
        assert value >= 17
        assert len(game.dealer) == 2 or value_of(game.dealer[:-1]) < 17
        won = value > 21 or value_of(game.player) > value
        assert (reward == 1.0) is won


@pytest.mark.parametrize(
    "row", rows_of(FOLDER / "data" / "example.jsonl"), ids=lambda row: f"seed {row['seed']}"
)
def test_the_best_play_of_an_example_scores_one(row: dict[str, Any]) -> None:
    table = Table(row)
    for _ in range(best_play(row["seed"]).hits):
        step = table.say("I think <action>hit</action>")
        assert (step["reward"], step["terminated"]) == (0.0, False)
        assert step["observation"].startswith("Your hand: ")
    step = table.say("<action>stand</action>")
    assert (step["reward"], step["terminated"], step["info"]["result"]) == (1.0, True, "win")


@pytest.mark.parametrize(
    "said",
    [
        "",
        "hit",
        "<action>double</action>",
        "<action>hit, stand</action>",
        "<think><action>stand</action></think>",
        "<action>stand</action> <action>win</action>",
        "<action>stand",
    ],
)
def test_an_answer_without_an_action_loses_the_hand(said: str) -> None:
    step = Table({**PARAMS, "seed": 0}).say(said)
    assert (step["reward"], step["terminated"], step["info"]["result"]) == (-1.0, True, "no_action")


def test_hitting_for_ever_busts() -> None:
    table = Table({**PARAMS, "seed": 3})
    steps = [table.say("<action>HIT</action>")]
    while not steps[-1]["terminated"]:
        steps.append(table.say("<action>HIT</action>"))
    assert (steps[-1]["reward"], steps[-1]["info"]["result"]) == (-1.0, "bust")
    assert steps[-1]["info"]["player_value"] > 21


def test_the_player_sees_one_card_of_the_dealers_and_not_the_deck() -> None:
    game = Game(0)
    opening = Table({**PARAMS, "seed": 0}).opening
    assert f"The dealer shows: {game.dealer[0]}." in opening["observation"]
    assert opening["info"] == {}


def test_rows_without_a_seed_are_dealt_by_their_index() -> None:
    by_index = [Table({**PARAMS, "_ng_task_index": index}).opening["observation"] for index in (4, 4, 5)]
    assert by_index[0] == by_index[1] != by_index[2]
    assert Table({**PARAMS, "seed": 5, "_ng_task_index": 4}).opening["observation"] == by_index[2]


def test_a_row_with_a_bad_seed_is_named() -> None:
    refused = Table({**PARAMS, "seed": [1]}).opening["error"]
    assert (refused["code"], refused["param"].split(".")[0]) == ("invalid_row", "seed")


def test_the_ecosystems_rows_can_be_played() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    for row in rows_of(SHARED / "blackjack.jsonl"):
        assert Table(row).say("<action>stand</action>")["info"]["result"] in ("win", "draw", "loss")


def test_the_examples_are_what_prepare_makes(tmp_path: Path) -> None:
    prepare(["--output", str(tmp_path / "rows.jsonl")])
    assert (tmp_path / "rows.jsonl").read_bytes() == (FOLDER / "data" / "example.jsonl").read_bytes()
