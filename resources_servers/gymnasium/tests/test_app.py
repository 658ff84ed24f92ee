"""Follow-up questions: gold, no-op and wrong answers, played by the agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.testing import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from nemo_gym.verify.matching import says
from resources_servers.gymnasium.app import FollowUpServer
from resources_servers.gymnasium.prepare import main as prepare
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent
from tests.serving.environments import ScriptedModel, text

FOLDER = Path(__file__).parents[1]
SHARED = FOLDER.parents[2] / "shared" / "data" / "environment_examples"
ROW = {
    "responses_create_params": {"input": "What is 4 times 5?"},
    "follow_ups": ["Now add 2."],
    "expected_answer": "22",
}


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


async def play(row: dict[str, Any], *answers: str) -> dict[str, Any]:
    gym = InProcessGym()
    gym.add(FollowUpServer, "env")
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text(answer)] for answer in answers]
    references = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    gym.add(GymnasiumAgent, "agent", **references)
    return await gym.run("agent", row)


@pytest.mark.parametrize("row", rows_of(FOLDER / "data" / "example.jsonl"))
async def test_gold_answers_to_the_examples_score_one(row: dict[str, Any]) -> None:
    turns = len(row["follow_ups"]) + 1
    scored = await play(row, *["Let me see."] * (turns - 1), f"That is {row['expected_answer']}.")
    assert (scored["reward"], scored["_ng_outcome"]) == (1.0, "completed")
    asked = [item["content"] for item in scored["response"]["output"] if item["role"] == "user"]
    assert asked == row["follow_ups"]


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        (("",), "no_answer"),
        (("<think>22</think>",), "no_answer"),
        (("20", ""), "no_answer"),
        (("22", "23"), "wrong"),
        (("20", "I don't know"), "wrong"),
        (("20", "2200 or 122"), "wrong"),
        (("20", "<think>22</think>Hm."), "wrong"),
    ],
)
async def test_no_ops_and_wrong_answers_score_nothing(answers: tuple[str, ...], result: str) -> None:
    scored = await play(ROW, *answers)
    assert (scored["reward"], scored["info"]) == (0.0, {"result": result})


async def test_a_row_without_an_expected_answer_requires_an_answer_to_every_turn() -> None:
    row = {**ROW, "expected_answer": None}
    assert (await play(row, "anything", "at all"))["reward"] == 1.0
    assert (await play(row, "anything", ""))["reward"] == 0.0


@pytest.mark.parametrize(
    ("expected", "is_said"),
    [("EIFFEL", True), ("eiffel tower", True), ("tow", False), ("", False), ("  ", False)],
)
def test_what_is_expected_stands_in_the_answer_as_whole_words(expected: str, is_said: bool) -> None:
    assert says("The Eiffel  Tower, of course!", expected) is is_said


def test_an_answer_that_denies_it_does_not_say_it() -> None:
    assert not says("It is not the Eiffel Tower.", "Eiffel Tower")
    assert not says("The Eiffel Tower or Big Ben", "Eiffel Tower")


async def test_a_row_that_cannot_be_played_is_named() -> None:
    with pytest.raises(UpstreamError) as caught:
        await play({**ROW, "follow_ups": "Now add 2."}, "20")
    assert caught.value.failure is not None
    assert (caught.value.failure.code, caught.value.failure.param) == ("invalid_row", "follow_ups")


@pytest.mark.parametrize("name", ["gymnasium", "example_multi_turn_gymnasium"])
async def test_the_ecosystems_rows_can_be_played(name: str) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    for row in rows_of(SHARED / f"{name}.jsonl"):
        turns = len(row.get("follow_ups", [])) + 1
        scored = await play(row, *["well"] * (turns - 1), f"It's {row.get('expected_answer', 'me')}.")
        assert scored["reward"] == 1.0


def test_the_examples_are_what_prepare_makes(tmp_path: Path) -> None:
    prepare(["--output", str(tmp_path / "rows.jsonl")])
    assert (tmp_path / "rows.jsonl").read_bytes() == (FOLDER / "data" / "example.jsonl").read_bytes()
