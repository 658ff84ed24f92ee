"""Gymnasium environments in words: gold, no-op and tricky play, and environments of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is in this folder's requirements.txt")

from fastapi.testclient import TestClient  # noqa: E402

from nemo_gym.testing import InProcessGym  # noqa: E402
from resources_servers.text_gymnasium.app import TextGymnasiumServer  # noqa: E402
from resources_servers.text_gymnasium.frozen_lake import shortest_way  # noqa: E402
from resources_servers.text_gymnasium.game import ACTION_NAMES, plain, without_escapes  # noqa: E402
from resources_servers.text_gymnasium.prepare import main as prepare  # noqa: E402
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent  # noqa: E402
from tests.serving.environments import ScriptedModel, text  # noqa: E402

FOLDER = Path(__file__).parents[1]
LAKE = {
    "responses_create_params": {"input": "Cross the lake."},
    "env_id": "FrozenLake-v1",
    "env_kwargs": {"desc": ["SF", "HG"], "is_slippery": False},
}
_closed: list[str] = []


class Echo(gymnasium.Env):  # type: ignore[misc, name-defined]
    """Rewards the magic word, which its observation contains; it has neither a drawing nor action names."""

    observation_space = gymnasium.spaces.Text(20)
    action_space = gymnasium.spaces.Text(10)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.word = f"word{self.np_random.integers(1000)}"
        return f"say {self.word}", {}

    def step(self, action: str) -> Any:
        if action == "crash":
            raise RuntimeError("a bug in the environment")
        return "ok", float(action == self.word), True, False, {"seen": {action}}

    def close(self) -> None:
        _closed.append("echo")


class Levers(gymnasium.Env):  # type: ignore[misc, name-defined]
    """Three levers that count from 5, and an observation of numbers."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(3, start=5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.high, {}

    def step(self, action: int) -> Any:
        return self.observation_space.low, float(action), True, False, {}


gymnasium.register("Echo-v0", Echo)
gymnasium.register("Levers-v0", Levers)


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class Play:
    def __init__(self, row: dict[str, Any], **config: Any) -> None:
        server = TextGymnasiumServer.standalone(**config)
        assert isinstance(server, TextGymnasiumServer)
        self.server, self.row = server, row
        self.client = TestClient(server.setup_webserver())
        self.opening: dict[str, Any] = self.client.post("/reset", json=row).json()

    def say(self, said: str) -> dict[str, Any]:
        response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [text(said)]}
        step: dict[str, Any] = self.client.post("/step", json={**self.row, "response": response}).json()
        return step

    def act(self, *actions: str) -> list[dict[str, Any]]:
        return [self.say(f"I go <action>{action}</action>") for action in actions]


def of(env_id: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "play"}, "env_id": env_id, **fields}


@pytest.mark.parametrize(
    "row", rows_of(FOLDER / "data" / "example.jsonl"), ids=lambda row: f"row {row['id']}"
)
def test_the_shortest_way_over_an_example_scores_one(row: dict[str, Any]) -> None:
    way = shortest_way(row["env_kwargs"]["desc"])
    assert way is not None
    steps = Play(row).act(*way)
    assert [step["reward"] for step in steps] == [0.0] * (len(way) - 1) + [1.0]
    assert steps[-1]["terminated"] is True


def test_the_player_sees_the_map_the_place_and_the_actions() -> None:
    play = Play(LAKE)
    assert play.opening["observation"].startswith("<red>S</red>F\nHG\n\nActions: left, down, right, up.")
    (step,) = play.act("Right")
    assert step["observation"].endswith("S<red>F</red>\nHG")
    assert (step["terminated"], step["info"]) == (False, {"prob": 1})


@pytest.mark.parametrize(
    "said", ["", "down", "<action>jump</action>", "<think><action>right</action></think>"]
)
def test_answers_without_an_action_end_the_episode_and_score_nothing(said: str) -> None:
    play = Play(LAKE)
    steps = [play.say(said) for _ in range(3)]
    assert [step["terminated"] for step in steps] == [False, False, True]
    assert [step["reward"] for step in steps] == [0.0] * 3
    assert "That is no action. Actions: left" in steps[0]["observation"]


def test_a_valid_action_starts_the_count_anew() -> None:
    play = Play(LAKE)
    steps = [play.say(""), play.say(""), *play.act("right"), play.say(""), play.say(""), *play.act("down")]
    assert (steps[-1]["reward"], steps[-1]["terminated"]) == (1.0, True)


def test_a_hole_ends_the_episode_and_a_limit_cuts_it() -> None:
    (fallen,) = Play(LAKE).act("down")
    assert (fallen["reward"], fallen["terminated"]) == (0.0, True)
    steps = Play({**LAKE, "max_episode_steps": 2}).act("up", "up")
    assert (steps[-1]["terminated"], steps[-1]["truncated"]) == (False, True)


def test_actions_may_be_named_or_numbered() -> None:
    assert Play(LAKE).act("2", "1")[-1]["reward"] == 1.0
    assert Play(of("Taxi-v4", seed=1)).act("PICK_UP")[0]["reward"] in (-1.0, -10.0)


def test_giving_up_costs_more_than_going_on_where_every_step_costs() -> None:
    steps = [play.say("I give up") for play in [Play(of("CliffWalking-v1"))] for _ in range(3)]
    assert sum(step["reward"] for step in steps) == -300.0


def test_the_seed_or_else_the_index_decides_the_episode() -> None:
    places = [
        Play(of("Taxi-v4", **fields)).opening["observation"]
        for fields in ({"seed": 3}, {"_ng_task_index": 3}, {"seed": 3, "_ng_task_index": 9}, {"seed": 4})
    ]
    assert places[0] == places[1] == places[2] != places[3]


def test_known_names_fit_their_environments() -> None:
    for env_id in ("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"):
        with gymnasium.make(env_id) as env:
            assert env.action_space.n == len(ACTION_NAMES[env_id.partition("-")[0]])


def test_an_environment_of_texts_is_played_in_texts() -> None:
    config: dict[str, Any] = {"environments": {"Echo-v0": {}}}
    play = Play(of("Echo-v0", seed=1), **config)
    said, _, rules = play.opening["observation"].partition("\n\n")
    assert rules.startswith("Actions: any command.")
    (step,) = play.act(said.removeprefix("say "))
    assert (step["reward"], step["observation"], step["terminated"]) == (1.0, "ok", True)
    assert isinstance(step["info"]["seen"], str)
    (refused,) = Play(of("Echo-v0"), **config).act("much too long a command")
    assert refused["info"] == {"result": "invalid_action"}


def test_an_observation_without_text_is_shown_in_numbers() -> None:
    play = Play(of("Levers-v0"), environments={"Levers-v0": {}})
    assert play.opening["observation"].startswith("[1.0,1.0]\n\nActions: 5, 6, 7.")
    (step,) = play.act("6")
    assert (step["reward"], step["observation"]) == (6.0, "[0.0,0.0]")
    named = Play(of("Levers-v0"), environments={"Levers-v0": {"action_names": ["A", "B", "C"]}})
    assert named.act("c")[0]["reward"] == 7.0


def test_environments_are_closed_at_the_end_at_a_new_beginning_and_when_they_are_given_up() -> None:
    _closed.clear()
    play = Play(of("Echo-v0"), environments={"Echo-v0": {}})
    play.act("hm")
    assert len(_closed) == 1
    play = Play(of("Echo-v0"), environments={"Echo-v0": {}})
    play.client.post("/reset", json=play.row)
    assert len(_closed) == 2
    play.client.post("/close_session")
    assert len(_closed) == 3
    assert play.server.session_state == {}


@pytest.mark.parametrize(
    ("row", "config", "code", "param"),
    [
        (of("os:system"), {}, "unknown_environment", "env_id"),
        (of("Levers-v0"), {}, "unknown_environment", "env_id"),
        (of("FrozenLake-v1", env_kwargs={"ice": True}), {}, "bad_environment", "env_kwargs"),
        (of("Nothing-v0"), {"environments": {"Nothing-v0": {}}}, "bad_environment", "env_id"),
        (of("CartPole-v1", seed=-1), {}, "invalid_row", "seed"),
        (of("Pendulum-v1"), {"environments": {"Pendulum-v1": {}}}, "not_playable_in_words", "env_id"),
        ({"responses_create_params": {"input": "x"}}, {}, "invalid_row", "env_id"),
        (of("Taxi-v4"), {"environments": {"Taxi-v4": {"action_names": ["a"]}}}, "bad_action_names", None),
    ],
)
def test_a_row_that_cannot_be_played_is_named(
    row: dict[str, Any], config: dict[str, Any], code: str, param: str | None
) -> None:
    error = Play(row, **config).opening["error"]
    assert (error["code"], error["param"]) == (code, param)


def test_a_bug_in_the_environment_is_a_failure_and_no_score() -> None:
    (step,) = Play(of("Echo-v0"), environments={"Echo-v0": {}}).act("crash")
    assert step["error"]["message"] == "RuntimeError: a bug in the environment"


@pytest.mark.parametrize(
    ("drawn", "told"),
    [
        ("\x1b[41mS\x1b[0mFF", "<red>S</red>FF"),
        ("\x1b[34;1mY\x1b[0m:\x1b[43mB\x1b[m", "<blue>Y</blue>:<yellow>B</yellow>"),
        ("\x1b[1mbold\x1b[0m \x1b[32mleft open", "bold left open"),
        ("plain", "plain"),
    ],
)
def test_colors_are_shown_as_tags(drawn: str, told: str) -> None:
    assert without_escapes(drawn) == told


def test_values_of_environments_become_json() -> None:
    import numpy as np

    value = {1: np.arange(2), "a": np.float32(0.5), "b": (np.int8(3), {4})}
    assert plain(value) == {"1": [0, 1], "a": 0.5, "b": [3, "{4}"]}


async def test_the_agent_plays_an_example_to_its_end() -> None:
    row = rows_of(FOLDER / "data" / "example.jsonl")[0]
    way = shortest_way(row["env_kwargs"]["desc"])
    assert way is not None
    gym = InProcessGym()
    gym.add(TextGymnasiumServer, "env")
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text(f"<action>{move}</action>")] for move in way]
    references = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    gym.add(GymnasiumAgent, "agent", max_steps=50, **references)
    scored = await gym.run("agent", row)
    assert (scored["reward"], scored["_ng_end_reason"], len(scored["step_rewards"])) == (
        1.0,
        "terminated",
        len(way),
    )


def test_the_examples_are_what_prepare_makes(tmp_path: Path) -> None:
    prepare(["--output", str(tmp_path / "rows.jsonl")])
    assert (tmp_path / "rows.jsonl").read_bytes() == (FOLDER / "data" / "example.jsonl").read_bytes()
