"""Policies at par, with excess calls, without calls, and with lucky guesses."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient

from nemo_gym.server_utils import ServerClient
from nemo_gym.testing import Turn, call, read_rows, run_environment
from resources_servers.efficient_tool_use.app import (
    EfficientToolUseConfig,
    EfficientToolUseResourcesServer,
    EfficientToolUseVerifyRequest,
    EfficientToolUseVerifyResponse,
)
from resources_servers.efficient_tool_use.par import cheapest_plan
from resources_servers.efficient_tool_use.prepare import make_task
from resources_servers.efficient_tool_use.stock import Tool, ToolCall

FOLDER = Path(__file__).parents[1]
STOCK = {
    "Oslo": {"nuts": 10, "bolts": 20},
    "Lima": {"nuts": 30, "bolts": 40},
    "Perth": {"nuts": 50, "bolts": 60},
}
PRICES = {Tool.COUNT_BIN: 1, Tool.LIST_WAREHOUSE: 3, Tool.LIST_PART: 2}
ROW: dict[str, Any] = {
    "responses_create_params": {"input": "How many nuts are there?"},
    "stock": STOCK,
    "needed": [[warehouse, "nuts"] for warehouse in STOCK],
    "expected_answer": 90,
    "prices": PRICES,
    "par_cost": 2,
    "par_calls": 1,
    "par_tokens": 45,
}
LIST_NUTS = ToolCall("list_part", {"part": "nuts"})
COUNTS = [ToolCall("count_bin", {"warehouse": warehouse, "part": "nuts"}) for warehouse in STOCK]


def make_server(**options: Any) -> EfficientToolUseResourcesServer:
    config = EfficientToolUseConfig(host="", port=0, entrypoint="", name="", **options)
    return EfficientToolUseResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))


def attempt(
    calls: Sequence[ToolCall],
    answer: str,
    *,
    tokens: int | None = 45,
    row: dict[str, Any] = ROW,
    answered: bool = True,
) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    for number, made in enumerate(calls):
        arguments = json.dumps(made.arguments)
        output.append(
            {"type": "function_call", "call_id": f"c{number}", "name": made.name, "arguments": arguments}
        )
        if answered:
            output.append({"type": "function_call_output", "call_id": f"c{number}", "output": "{}"})
    part = {"type": "output_text", "text": answer, "annotations": []}
    output.append(
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    )
    response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": output}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    if tokens is not None:
        details = {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        response["usage"] = {
            "input_tokens": 9,
            "output_tokens": tokens,
            "total_tokens": tokens + 9,
            **details,
        }
    return {**row, "response": response}


async def verify(
    calls: Sequence[ToolCall],
    answer: str,
    server: EfficientToolUseResourcesServer | None = None,
    **options: Any,
) -> EfficientToolUseVerifyResponse:
    body = EfficientToolUseVerifyRequest.model_validate(attempt(calls, answer, **options))
    return await (server or make_server()).verify(body)


async def test_par_is_worth_everything() -> None:
    scored = await verify([LIST_NUTS], "Answer: 90")
    assert (scored.reward, scored.success, scored.cost, scored.calls) == (1.0, True, 2, 1)


async def test_success_above_par_is_worth_less_and_more_than_failure() -> None:
    counted = await verify(COUNTS, "Answer: 90")
    assert counted.reward == pytest.approx(0.5 + 0.4 * 2 / 3 + 0.1)
    wordy = await verify([LIST_NUTS], "Answer: 90", tokens=450)
    assert wordy.reward == pytest.approx(0.5 + 0.4 + 0.1 * 0.1)
    spammed = await verify([LIST_NUTS] * 200, "Answer: 90", tokens=9000)
    assert 0.5 < spammed.reward < 0.51
    assert (await verify([LIST_NUTS], "Answer: 91")).reward == 0.0


async def test_a_right_answer_without_the_look_ups_is_luck() -> None:
    for calls in (
        [],
        COUNTS[:2],
        [ToolCall("list_part", {"part": "bolts"})],
        [ToolCall("list_part", {"part": "Nuts"})],
    ):
        scored = await verify(calls, "Answer: 90")
        assert (scored.reward, scored.is_right, scored.is_grounded) == (0.0, True, False)
    unseen = await verify([LIST_NUTS], "Answer: 90", answered=False)
    assert (unseen.reward, unseen.is_grounded) == (0.0, False)


@pytest.mark.parametrize(
    "answer", ["", "90 or 91", "Answer: 90 or 60", "<think>Answer: 90</think>", "Answer: lots", "90"]
)
async def test_no_answer_and_hedges_fail(answer: str) -> None:
    assert (await verify([LIST_NUTS], answer)).reward == 0.0


@pytest.mark.parametrize(
    "answer", ["Answer: 90", "So \\boxed{90}.", "<answer>90</answer>", "The answer is 90 units."]
)
async def test_forms_of_the_answer(answer: str) -> None:
    assert (await verify([LIST_NUTS], answer)).reward == 1.0


async def test_failed_and_invented_calls_cost_too() -> None:
    wasted = [ToolCall("count_bin", {"warehouse": "Rome", "part": "nuts"}), ToolCall("peek", {})]
    scored = await verify([*wasted, LIST_NUTS], "Answer: 90")
    assert (scored.cost, scored.calls) == (1 + 3 + 2, 3)
    assert scored.call_efficiency == pytest.approx(2 / 6)


async def test_without_usage_the_calls_take_the_weight_of_tokens() -> None:
    assert (await verify([LIST_NUTS], "Answer: 90", tokens=None)).reward == 1.0
    counted = await verify(COUNTS, "Answer: 90", tokens=None)
    assert counted.reward == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert counted.token_efficiency is None


async def test_weights_are_configurable() -> None:
    server = make_server(weights={"success": 0.0, "calls": 1.0, "tokens": 0.0})
    assert (await verify(COUNTS, "Answer: 90", server)).reward == pytest.approx(2 / 3)


def test_the_tools_show_the_sessions_own_stock() -> None:
    app = make_server().setup_webserver()
    one, other = TestClient(app), TestClient(app)
    one.post("/seed_session", json=ROW)
    other.post("/seed_session", json={**ROW, "stock": {**STOCK, "Oslo": {"nuts": 7, "bolts": 8}}})
    assert one.post("/count_bin", json={"warehouse": "Oslo", "part": "nuts"}).json() == {"units": 10}
    assert other.post("/count_bin", json={"warehouse": "Oslo", "part": "nuts"}).json() == {"units": 7}
    assert one.post("/list_warehouse", json={"warehouse": "Lima"}).json() == STOCK["Lima"]
    assert one.post("/list_part", json={"part": "nuts"}).json() == {"Oslo": 10, "Lima": 30, "Perth": 50}
    refused = one.post("/list_part", json={"part": "gears"})
    assert refused.status_code == 404
    assert "there are nuts, bolts" in refused.text
    one.post("/close_session")
    assert TestClient(app).post("/list_part", json={"part": "nuts"}).status_code == 409


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"needed": []}, "needed"),
        ({"needed": [["Rome", "nuts"]]}, "Rome/nuts"),
        ({"prices": {"count_bin": 1}}, "prices must name"),
        ({"prices": {**PRICES, Tool.COUNT_BIN: 0}}, "greater than 0"),
        ({"par_cost": 0}, "par_cost"),
    ],
)
def test_a_row_that_cannot_be_graded_is_refused(change: dict[str, Any], problem: str) -> None:
    with TestClient(make_server().setup_webserver()) as client:
        refused = client.post("/verify", json=attempt([LIST_NUTS], "Answer: 90", row={**ROW, **change}))
        assert refused.status_code == 422
        assert problem in refused.text


def test_metrics_tell_success_from_efficiency() -> None:
    row = {
        "reward": 0.9,
        "success": True,
        "call_efficiency": 0.8,
        "token_efficiency": None,
        "extracted_answer": "1",
    }
    lost = {
        "reward": 0.0,
        "success": False,
        "call_efficiency": 1.0,
        "token_efficiency": 1.0,
        "extracted_answer": None,
    }
    metrics = make_server().compute_metrics([[row], [lost]])
    assert metrics["pass@1/success"] == 50.0
    assert metrics["pass@1/call_efficiency"] == 80.0


EXAMPLES = read_rows(FOLDER / "data" / "example.jsonl")


def test_an_attempt_on_the_whole_path_sees_what_it_looks_up() -> None:
    row = EXAMPLES[0]
    plan = cheapest_plan([(warehouse, part) for warehouse, part in row["needed"]], row["prices"])
    looks = [call(name, **arguments) for name, arguments in plan.calls]
    turns: list[Turn] = [looks, f"Answer: {row['expected_answer']}"]
    (scored,) = run_environment(EfficientToolUseResourcesServer, [row], turns)
    assert (scored["success"], scored["cost"], scored["call_efficiency"]) == (True, row["par_cost"], 1.0)
    assert scored["output_tokens"] > 0
    assert 0.9 < scored["reward"] <= 1.0
    (lucky,) = run_environment(EfficientToolUseResourcesServer, [row], turns[1:])
    assert (lucky["reward"], lucky["is_right"], lucky["is_grounded"]) == (0.0, True, False)


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: str(row["id"]))
async def test_the_examples_reward_the_cheapest_plan(row: dict[str, Any]) -> None:
    plan = cheapest_plan([(warehouse, part) for warehouse, part in row["needed"]], row["prices"])
    assert (plan.cost, len(plan.calls)) == (row["par_cost"], row["par_calls"])
    answer = f"Answer: {row['expected_answer']}"
    assert (await verify(plan.calls, answer, row=row, tokens=row["par_tokens"])).reward == 1.0
    assert (await verify(plan.calls[1:], answer, row=row)).reward == 0.0
    assert (await verify(plan.calls, "Answer: -1", row=row)).reward == 0.0


async def test_generated_tasks_are_solved_at_par_by_what_the_tools_say() -> None:
    rng = random.Random(3)
    for index in range(100):
        row = make_task(index, rng)
        plan = cheapest_plan(row["needed"], row["prices"])
        assert row["par_cost"] == plan.cost > 0
        scored = await verify(
            plan.calls, f"Answer: {row['expected_answer']}", row=row, tokens=row["par_tokens"]
        )
        assert scored.reward == 1.0
        declared = [tool["name"] for tool in row["responses_create_params"]["tools"]]
        assert declared == list(Tool)
