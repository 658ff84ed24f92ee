"""Gold, no-op and adversarial answers to instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import InputError
from nemo_gym.server_utils import ServerClient
from nemo_gym.testing import read_rows, run_environment
from resources_servers.instruction_following.app import (
    InstructionFollowingConfig,
    InstructionFollowingResourcesServer,
    InstructionFollowingVerifyRequest,
)
from resources_servers.instruction_following.instructions.lexicon import PERSON_NAMES

FOLDER = Path(__file__).parents[1]
SHARED_EXAMPLES = FOLDER.parents[2] / "shared" / "data" / "environment_examples"


def make_server(**options: Any) -> InstructionFollowingResourcesServer:
    config = InstructionFollowingConfig(host="", port=0, entrypoint="", name="", **options)
    return InstructionFollowingResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))


def rows_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    return read_rows(file)


def attempt(text: str, row: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    response = {
        "id": "r",
        "created_at": 0,
        "model": "m",
        "object": "response",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return {"responses_create_params": {"input": "Write."}, **row, "response": response}


async def score(text: str, row: dict[str, Any], **options: Any) -> float:
    body = InstructionFollowingVerifyRequest.model_validate(attempt(text, row))
    return (await make_server(**options).verify(body)).reward


TWO_RULES = {
    "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
    "kwargs": [None, {"num_words": 3, "relation": "at least", "N": None}],
}
GOLD_OF_EXAMPLES = [
    "Sunlight holds ALL colours and AIR scatters blue more than red. A dizzy hazy blaze of ZEAL. That is all for now.",
    "First " + "the rider steers a little and the wheel follows; " * 20 + "That is all for now.",
    "NASA knows why AIR is blue.",
    "Imagine a TALL TOWER by a WILD GREY SEA. He kept its light near the bridge.",
    "Roll the dice.\n***\nMove your piece.\n***\nWin.",
    "<<Why learn>>\nIt opens doors and minds.",
]


@pytest.mark.parametrize("index", range(len(GOLD_OF_EXAMPLES)))
async def test_the_examples_reward_an_answer_that_follows(index: int) -> None:
    row = rows_of(FOLDER / "data" / "example.jsonl")[index]
    assert await score(GOLD_OF_EXAMPLES[index], row) == 1.0
    assert await score("I, for one, won't!", row) == 0.0


def test_attempts_on_the_whole_path() -> None:
    rows = read_rows(FOLDER / "data" / "example.jsonl")
    (scored,) = run_environment(InstructionFollowingResourcesServer, rows[:1], [GOLD_OF_EXAMPLES[0]])
    assert (scored["reward"], scored["_ng_outcome"]) == (1.0, "completed")
    for scored in run_environment(InstructionFollowingResourcesServer, rows, ["I, for one, won't!"]):
        assert scored["reward"] == 0.0


async def test_binary_requires_all_and_fraction_gives_the_share() -> None:
    for text, share in [
        ("One two three.", 1.0),
        ("One, two, three.", 0.5),
        ("One.", 0.5),
        ("One, two.", 0.0),
    ]:
        assert await score(text, {**TWO_RULES, "grading_mode": "fraction"}) == share
        assert await score(text, {**TWO_RULES, "grading_mode": "binary"}) == float(share == 1.0)


@pytest.mark.parametrize("text", ["", " \n", "...", "<think>one two three", "<think>one two three</think>"])
async def test_saying_nothing_follows_nothing(text: str) -> None:
    assert await score(text, {**TWO_RULES, "grading_mode": "fraction"}) == 0.0


async def test_reasoning_is_not_judged() -> None:
    assert await score("<think>Well, commas, here</think>One two three.", TWO_RULES) == 1.0


async def test_loose_is_reported_and_counts_where_it_is_asked_for() -> None:
    text = "Sure, here you are:\nOne two three."
    body = InstructionFollowingVerifyRequest.model_validate(attempt(text, TWO_RULES))
    scored = await make_server().verify(body)
    assert (scored.reward, scored.reward_loose) == (0.0, 1.0)
    assert (scored.follow_instruction_list, scored.follow_all_instructions) == ([False, True], False)
    assert (scored.follow_instruction_list_loose, scored.follow_all_instructions_loose) == (
        [True, True],
        True,
    )
    assert await score(text, TWO_RULES, evaluation="loose") == 1.0


async def test_fields_under_verifier_metadata_are_read() -> None:
    assert await score("One two three.", {"verifier_metadata": {**TWO_RULES, "prompt": "Write."}}) == 1.0


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            {"instruction_id_list": ["keywords:existance"], "kwargs": [{}]},
            "did you mean 'keywords:existence'",
        ),
        (
            {"instruction_id_list": ["keywords:existence"], "kwargs": [{}]},
            r"kwargs\[0\].keywords: Field required",
        ),
        ({"instruction_id_list": [], "kwargs": []}, "instruction_id_list: empty"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": []}, "0 entries for 1"),
    ],
)
async def test_a_row_that_cannot_be_graded_is_named_and_not_scored(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        await score("One two three.", row)


def test_over_http_the_verdict_has_the_fields_of_the_contract() -> None:
    with TestClient(make_server().setup_webserver()) as client:
        scored = client.post("/verify", json=attempt("One two three.", {"id": 7, **TWO_RULES})).json()
        assert (scored["reward"], scored["id"], scored["grading_mode"]) == (1.0, 7, "binary")
        assert scored["instruction_id_list"] == TWO_RULES["instruction_id_list"]
        refused = client.post(
            "/verify", json=attempt("x", {**TWO_RULES, "instruction_id_list": ["a:b", "c:d"]})
        )
        assert refused.status_code == 422
        assert refused.json()["error"]["param"] == "instruction_id_list[0]"
        assert client.get("/reverify_mode").json() == "stateless"


def test_metrics_hold_prompt_and_instruction_accuracy() -> None:
    row = {
        "reward": 0.0,
        "follow_instruction_list": [True, False],
        "follow_instruction_list_loose": [True, True],
    }
    metrics = make_server().compute_metrics([[row]])
    assert metrics["pass@1/prompt_strict"] == 0.0
    assert metrics["pass@1/prompt_loose"] == 100.0
    assert metrics["pass@1/instruction_strict"] == 50.0
    assert "pass@1[avg-of-1]/instruction_loose" in make_server().get_key_metrics(metrics)


GOLD_OF_THE_ECOSYSTEM = {
    "instruction_following": [
        "Car\n\nMom\n\nCrash it went\n\nIt is no contest.",
        "* ONE\n* TWO\n* THREE\n***\n* FOUR\n* FIVE",
        "Relationship games win. Relationship sims too!",
        "[a] [b] [c] [d] " + "It goes on. " * 17,
        "<<JayHorn>>\nClone it.\n***\nBuild it.",
    ],
    "ifbench": [
        "kaleidoscope" + " nebula" * 2 + " whisper" * 3 + " labyrinth" * 5 + " Paradox" * 7,
        "INT. MODULE\n  It stops.\n    They wait.\n\n      Silence.",
        "Path filename extraction: pathlib Path name attribute gives filename",
        "Fade in on New York, 2057.",
        "Meet " + ", ".join(PERSON_NAMES[:39]),
    ],
}


@pytest.mark.parametrize("name", GOLD_OF_THE_ECOSYSTEM)
async def test_rows_of_the_ecosystem_are_graded(name: str) -> None:
    rows = rows_of(SHARED_EXAMPLES / f"{name}.jsonl")
    for row, gold in zip(rows, GOLD_OF_THE_ECOSYSTEM[name], strict=True):
        assert await score(gold, row) == 1.0, row["id"]
        assert await score("the Part, and no more", row) < 1.0, row["id"]
