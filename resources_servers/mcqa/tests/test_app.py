"""Gold, no-op and adversarial answers to multiple-choice questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.server_utils import ServerClient
from resources_servers.mcqa.app import MCQAResourcesServer, MCQAResourcesServerConfig, MCQAVerifyRequest

FOLDER = Path(__file__).parents[1]
SHARED_EXAMPLES = FOLDER.parents[2] / "shared" / "data" / "environment_examples"
OPTIONS = [{"A": "Oxygen"}, {"B": "Argon"}, {"C": "Nitrogen"}]


def make_server(**options: Any) -> MCQAResourcesServer:
    config = MCQAResourcesServerConfig(host="", port=0, entrypoint="", name="", **options)
    return MCQAResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))


def attempt(*output: dict[str, Any], **row: Any) -> dict[str, Any]:
    response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": list(output)}
    params = {"input": [{"role": "user", "content": "Which gas?"}]}
    return {
        "responses_create_params": params,
        "options": OPTIONS,
        "expected_answer": "C",
        **row,
        "response": {**response, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
    }


def message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}


async def score(text: str, server: MCQAResourcesServer | None = None, **row: Any) -> tuple[float, str | None]:
    body = MCQAVerifyRequest.model_validate(attempt(message(text), **row))
    scored = await (server or make_server()).verify(body)
    return scored.reward, scored.extracted_answer


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("strict_single_letter_boxed", "So \\boxed{C}"),
        ("strict_single_letter_boxed", "Is it \\boxed{A}? No, \\boxed{\\text{C: Nitrogen}}"),
        ("strict_single_letter_boxed", "<think>\\boxed{A}</think>\\boxed{C}"),
        ("lenient_boxed", "So \\boxed{nitrogen}"),
        ("lenient_answer_colon", "Answer: C"),
        ("lenient_answer_colon", "Answer: Nitrogen"),
        ("lenient_answer_colon_md", "**Answer**: C, of course"),
        ("lenient", "C"),
    ],
)
async def test_gold(mode: str, text: str) -> None:
    assert await score(text, grading_mode=mode) == (1.0, "C")


@pytest.mark.parametrize(
    ("text", "extracted"),
    [
        ("", None),
        ("I don't know.", None),
        ("C", None),
        ("\\boxed{A}", "A"),
        ("\\boxed{A, B, C}", None),
        ("\\boxed{A} \\boxed{B} \\boxed{C} \\boxed{A}", None),
        ("\\boxed{A. B. C.}", None),
        ("\\boxed{c}", None),
        ("\\boxed{Z}", None),
        ("<think>surely \\boxed{C}", None),
        ("\\boxed{C", None),
    ],
)
async def test_no_ops_and_tricks_get_nothing(text: str, extracted: str | None) -> None:
    assert await score(text) == (0.0, extracted)


async def test_only_what_was_said_last_counts() -> None:
    body = attempt(message("\\boxed{C}"), message("\\boxed{A}"))
    assert (await make_server().verify(MCQAVerifyRequest.model_validate(body))).reward == 0.0
    assert (await make_server().verify(MCQAVerifyRequest.model_validate(attempt()))).reward == 0.0


async def test_the_configured_mode_beats_the_rows() -> None:
    server = make_server(grading_mode="lenient_answer_colon")
    assert await score("Answer: C", server, grading_mode="strict_single_letter_boxed") == (1.0, "C")
    assert await score("\\boxed{C}", server) == (0.0, None)


@pytest.mark.parametrize(
    ("output_regex", "text", "scored"),
    [
        ("ANSWER IS\\s*([A-Za-z])", "Answer is A? The answer is c", (1.0, "C")),
        ("ANSWER IS\\s*([A-Za-z])", "\\boxed{C}", (1.0, "C")),
        (["Pick: (.*)", "Choose: (.*)"], "Choose: nitrogen", (1.0, "C")),
        ("Option ([A-Z])", "Option Z", (0.0, None)),
        ("Option ([A-Z])", "Option A, in a box \\boxed{C}", (0.0, "A")),
    ],
)
async def test_a_rows_own_pattern_is_tried_first(
    output_regex: object, text: str, scored: tuple[float, str | None]
) -> None:
    assert await score(text, template_metadata={"output_regex": output_regex}) == scored


async def test_a_pattern_that_never_ends_fails_the_attempt_instead_of_scoring_it() -> None:
    server = make_server(regex_timeout_s=0.3)
    with pytest.raises(VerifierError) as caught:
        await score("a" * 60 + "b", server, template_metadata={"output_regex": "(a+)+$"})
    assert caught.value.failure.code == "verifier_timeout"


async def test_a_question_without_options_takes_every_letter() -> None:
    assert await score("\\boxed{Q}", options=None, expected_answer="q") == (1.0, "Q")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"expected_answer": None}, "expected_answer: missing"),
        ({"expected_answer": "D"}, "expected_answer: 'D' is none of the options A, B, C"),
        (
            {"options": None, "expected_answer": "Mars"},
            "options: missing, so that only a letter is an answer",
        ),
        ({"options": [{"A": "x"}, {"A": "y"}]}, "options: the option A is listed twice"),
        ({"options": [{"1": "x"}], "expected_answer": ""}, "options: .*; expected_answer: missing"),
        ({"template_metadata": {"output_regex": 7}}, "output_regex must be"),
        ({"template_metadata": {"output_regex": "(["}}, "invalid"),
    ],
)
async def test_a_row_that_cannot_be_graded_is_named_and_not_scored(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        await score("\\boxed{C}", **row)


def test_over_http_the_verdict_has_the_fields_of_the_contract() -> None:
    with TestClient(make_server().setup_webserver()) as client:
        scored = client.post("/verify", json=attempt(message("\\boxed{C}"))).json()
        assert (scored["reward"], scored["expected_answer"], scored["extracted_answer"]) == (1.0, "C", "C")
        assert scored["response"]["output"][0]["content"][0]["text"] == "\\boxed{C}"
        refused = client.post("/verify", json=attempt(message("x"), expected_answer="Z"))
        assert refused.status_code == 422
        assert refused.json()["error"]["param"] == "expected_answer"
        refused = client.post("/verify", json=attempt(message("x"), grading_mode="guess"))
        assert refused.status_code == 422
        assert client.get("/reverify_mode").json() == "stateless"


def test_metrics_hold_accuracy_majority_and_missing_answers() -> None:
    server = make_server()
    rows: list[dict[str, Any]] = [
        {"reward": 1.0, "extracted_answer": "C"},
        {"reward": 0.0, "extracted_answer": None},
    ]
    metrics = server.compute_metrics([rows])
    assert metrics["pass@2/accuracy"] == 100.0
    assert metrics["pass@1[avg-of-2]/no_answer"] == 50.0
    assert "majority@2/accuracy" in server.get_key_metrics(metrics)


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", rows_of(FOLDER / "data" / "example.jsonl"), ids=lambda row: str(row["uuid"]))
async def test_the_examples_reward_their_expected_answer(row: dict[str, Any]) -> None:
    letter = row["expected_answer"]
    text = f"Answer: {letter}\nANSWER IS {letter}\n\\boxed{{{letter}}}"
    assert await score(text, **{key: row[key] for key in row if key != "responses_create_params"}) == (
        1.0,
        letter,
    )


@pytest.mark.parametrize("name", ["mcqa", "gpqa_diamond", "bunsenbench_chemistry_mcq"])
async def test_rows_of_the_ecosystem_are_graded(name: str) -> None:
    file = SHARED_EXAMPLES / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    for row in rows_of(file):
        body = {**row, "response": attempt(message(f"\\boxed{{{row['expected_answer']}}}"))["response"]}
        assert (await make_server().verify(MCQAVerifyRequest.model_validate(body))).reward == 1.0
