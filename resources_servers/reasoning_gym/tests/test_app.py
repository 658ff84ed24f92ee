"""The server: the scored text, the fields of the answer, and scoring in workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import InputError
from resources_servers.reasoning_gym.app import (
    ReasoningGymResourcesServer,
    ReasoningGymVerifyRequest,
    extract_answer,
)

FOLDER = Path(__file__).parent.parent
EXAMPLES = [json.loads(line) for line in (FOLDER / "data/example.jsonl").read_text().splitlines()]
ECOSYSTEM_ROWS = FOLDER.parents[2] / "shared/data/environment_examples/reasoning_gym.jsonl"


def server() -> ReasoningGymResourcesServer:
    made = ReasoningGymResourcesServer.standalone()
    assert isinstance(made, ReasoningGymResourcesServer)
    return made


def request_of(row: dict[str, Any], text: str) -> ReasoningGymVerifyRequest:
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
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
    return ReasoningGymVerifyRequest.model_validate({**row, "response": response})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("I think <answer> 42 </answer>", "42"),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("I will use <answer> tags. <answer>42</answer>", "42"),
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{1} <answer>2</answer> \boxed{3}", "2"),
        ("<answer></answer>", ""),
        (r"<answer>$\boxed{42}$</answer>", "42"),
        (r"so \boxed{\text{42}}.", "42"),
        ("I add.\nThe answer is 42.", "42"),
        ("Answer:\n```\n42\n```", "42"),
        ("Answer:\n1 2\n3 4", "Answer:\n1 2\n3 4"),
        ("Answer: 1 2\n3 4", "Answer: 1 2\n3 4"),
        ("  just this \n", "just this"),
        ("", None),
        (" \n", None),
    ],
)
def test_the_answer_is_the_last_marked_one_or_else_the_whole_text(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer


async def test_the_examples_score_their_gold_answers_off_the_event_loop() -> None:
    assert len(EXAMPLES) >= 5
    for row in EXAMPLES:
        gold = row["answer"]
        if gold is None:
            gold = json.dumps(row["metadata"]["possible_answer"])
        verified = await server().verify(request_of(row, f"First I thought 0. <answer>{gold}</answer>"))
        assert verified.reward == verified.score == 1.0
        assert verified.task_name == row["metadata"]["source_dataset"]
        assert verified.extracted_answer == gold


async def test_silence_and_a_wrong_answer_get_no_reward() -> None:
    row = next(row for row in EXAMPLES if row["metadata"]["source_dataset"] == "chain_sum")
    silent = await server().verify(request_of(row, "<think>It is " + row["answer"] + "</think>"))
    assert (silent.reward, silent.extracted_answer) == (0.0, None)
    assert (await server().verify(request_of(row, "<answer>1e9</answer>"))).reward == 0.0


async def test_a_malformed_row_fails_by_the_name_of_its_field() -> None:
    with pytest.raises(InputError) as unnamed:
        await server().verify(request_of({**EXAMPLES[0], "metadata": {}}, "x"))
    assert unnamed.value.failure.param == "metadata.source_dataset"
    with pytest.raises(InputError) as unknown:
        await server().verify(request_of({**EXAMPLES[0], "metadata": {"source_dataset": "nothing"}}, "x"))
    assert unknown.value.failure.param == "metadata.source_dataset"


def test_a_row_without_a_field_is_answered_with_the_fields_name() -> None:
    body = request_of(EXAMPLES[0], "x").model_dump(mode="json")
    del body["question"]
    with TestClient(server().setup_webserver()) as client:
        answer = client.post("/verify", json=body)
    assert answer.status_code == 422
    assert "question" in answer.text


async def test_rows_of_the_ecosystem_are_taken_as_they_are() -> None:
    if not ECOSYSTEM_ROWS.exists():
        pytest.skip("the ecosystem's example rows are not on this machine")
    for line in ECOSYSTEM_ROWS.read_text().splitlines():
        row = json.loads(line)
        assert (await server().verify(request_of(row, row["answer"]))).reward == 1.0


def test_metrics_are_grouped_by_task_with_a_vote_over_answers() -> None:
    rows = [
        [
            {"reward": reward, "extracted_answer": answer, "task_name": "chain_sum"}
            for answer, reward in (("1", 1.0), ("2", 0.0), ("1", 1.0))
        ]
    ]
    metrics = server().compute_metrics(rows)
    assert metrics["majority@3/accuracy"] == pytest.approx(100.0)
    assert metrics["chain_sum/pass@1/accuracy"] == pytest.approx(200 / 3)
    assert set(server().get_key_metrics(metrics)) == {
        "pass@1[avg-of-3]/accuracy",
        "pass@3/accuracy",
        "majority@3/accuracy",
    }
