"""Gold, no-op and adversarial calls, and the invariant that the components add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.server_utils import ServerClient
from nemo_gym.testing import call, read_rows, run_environment
from resources_servers.example_multi_reward.app import (
    ExampleMultiRewardResourcesServer,
    MultiRewardConfig,
    MultiRewardVerifyRequest,
    MultiRewardVerifyResponse,
)
from responses_api_agents.tool_simulation_agent.app import ToolSimulationAgent

FOLDER = Path(__file__).parents[1]
SHARED_EXAMPLES = FOLDER.parents[2] / "shared" / "data" / "environment_examples"
EXAMPLES = read_rows(FOLDER / "data" / "example.jsonl")
ROW = EXAMPLES[0]
GOLD = ROW["expected_call"]


def make_server(**options: Any) -> ExampleMultiRewardResourcesServer:
    config = MultiRewardConfig(host="", port=0, entrypoint="", name="", **options)
    return ExampleMultiRewardResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))


def calling(name: str, arguments: object) -> dict[str, Any]:
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "call_id": "c", "name": name, "arguments": arguments}


def saying(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}


def attempt(*output: dict[str, Any], row: dict[str, Any] = ROW) -> dict[str, Any]:
    response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": list(output)}
    return {**row, "response": {**response, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}}


async def verify(
    *output: dict[str, Any], row: dict[str, Any] = ROW, **options: Any
) -> MultiRewardVerifyResponse:
    return await make_server(**options).verify(
        MultiRewardVerifyRequest.model_validate(attempt(*output, row=row))
    )


RIGHT = calling(GOLD["name"], GOLD["arguments"])
WRONG = calling("set_timer", {"minutes": 5, "label": "bread"})


@pytest.mark.parametrize(
    ("output", "correctness", "schema_valid", "form"),
    [
        ([RIGHT], 1, 1, 1),
        ([calling("set_timer", '{"label": "bread", "minutes": 25.0}')], 1, 1, 1),
        ([RIGHT, saying("Done!")], 1, 1, 0),
        ([saying("Sure."), RIGHT], 1, 1, 0),
        ([RIGHT, WRONG], 1, 1, 0),
        ([WRONG, RIGHT], 0, 1, 0),
        ([WRONG], 0, 1, 1),
        ([calling("set_timer", {"minutes": "25", "label": "bread"})], 0, 0, 1),
        ([calling("set_timer", {"minutes": 25, "label": "bread", "more": 1})], 0, 0, 1),
        ([calling("set_timer", {"minutes": 25})], 0, 0, 1),
        ([calling("set_timer", "{broken")], 0, 0, 1),
        ([calling("set_alarm", GOLD["arguments"])], 0, 0, 1),
        ([saying("25 minutes")], 0, 0, 0),
        ([], 0, 0, 0),
    ],
)
async def test_components_come_apart_and_add_up(
    output: list[dict[str, Any]], correctness: int, schema_valid: int, form: int
) -> None:
    scored = await verify(*output)
    assert scored.reward_components == {
        "correctness": correctness,
        "schema_valid": schema_valid,
        "format": form,
    }
    assert scored.reward == sum(scored.reward_components.values())
    assert (scored.correctness, scored.schema_valid, scored.format) == (correctness, schema_valid, form)


async def test_weights_change_what_components_are_worth() -> None:
    scored = await verify(RIGHT, saying("Done!"), weights={"correctness": 2, "schema_valid": 0.5})
    assert scored.reward_components == {"correctness": 2.0, "schema_valid": 0.5, "format": 0.0}
    assert (scored.reward, scored.correctness) == (2.5, 1.0)
    with pytest.raises(VerifierError, match="corectness"):
        await verify(RIGHT, weights={"corectness": 2})


@pytest.mark.parametrize(
    "expected", [{}, {"name": "", "arguments": {}}, {"name": "set_timer", "arguments": "["}]
)
async def test_a_row_without_a_call_to_expect_is_refused(expected: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        await verify(RIGHT, row={**ROW, "expected_call": expected})


def test_over_http_the_verdict_has_the_fields_of_the_contract() -> None:
    with TestClient(make_server().setup_webserver()) as client:
        scored = client.post("/verify", json=attempt(RIGHT)).json()
        assert scored["reward"] == 3.0 == sum(scored["reward_components"].values())
        assert scored["predicted_calls"] == ['set_timer(minutes=25, label="bread")']
        assert client.get("/reverify_mode").json() == "stateless"


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: str(row["id"]))
def test_the_examples_reward_the_expected_call_on_the_whole_path(row: dict[str, Any]) -> None:
    expected = row["expected_call"]
    turns = [call(expected["name"], **expected["arguments"])]
    (scored,) = run_environment(ExampleMultiRewardResourcesServer, [row], turns, agent=ToolSimulationAgent)
    assert (scored["reward"], scored["_ng_outcome"]) == (3.0, "completed")
    (scored,) = run_environment(ExampleMultiRewardResourcesServer, [row], ["No."], agent=ToolSimulationAgent)
    assert scored["reward"] == 0.0


async def test_rows_of_the_ecosystem_are_graded() -> None:
    file = SHARED_EXAMPLES / "example_tool_call_multireward.jsonl"
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    for row in read_rows(file):
        expected = row["expected_call"]
        assert (await verify(calling(expected["name"], expected["arguments"]), row=row)).reward == 3.0
        assert (await verify(calling(expected["name"], {"city": "Nowhere"}), row=row)).reward == 2.0
