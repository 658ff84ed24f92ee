"""Gold, no-op and adversarial answers to mathematical problems, with and without a judge."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from nemo_gym.failures import InputError
from nemo_gym.judge import JudgeError
from nemo_gym.server_utils import ServerClient
from nemo_gym.verify.equivalence_judge import DIFFERENT_LABEL, EQUAL_LABEL
from resources_servers.math_with_judge.app import (
    LibraryJudgeMathResourcesServer,
    LibraryJudgeMathResourcesServerConfig,
    LibraryJudgeMathVerifyRequest,
    LibraryJudgeMathVerifyResponse,
    scores_of,
)
from resources_servers.math_with_judge.prepare import task_row

FOLDER = Path(__file__).parents[1]
SHARED = FOLDER.parents[2] / "shared" / "data"
JUDGE = {"type": "responses_api_models", "name": "the_judge"}


def make_server(client: MagicMock | None = None, **options: Any) -> LibraryJudgeMathResourcesServer:
    options = {"should_use_judge": False, **options}
    config = LibraryJudgeMathResourcesServerConfig(host="", port=0, entrypoint="", name="", **options)
    return LibraryJudgeMathResourcesServer(
        config=config, server_client=client or MagicMock(spec=ServerClient)
    )


def response_of(*texts: str) -> dict[str, Any]:
    output = [
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
        for text in texts
    ]
    answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": output}
    return {**answer, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def attempt(*texts: str, expected: object = "3/4", question: str = "What is left?") -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": question}]},
        "question": question,
        "expected_answer": expected,
        "response": response_of(*texts),
    }


async def verify(
    server: LibraryJudgeMathResourcesServer, *texts: str, **row: Any
) -> LibraryJudgeMathVerifyResponse:
    return await server.verify(LibraryJudgeMathVerifyRequest.model_validate(attempt(*texts, **row)))


@pytest.mark.parametrize(
    ("text", "extracted"),
    [
        ("So \\boxed{\\frac{3}{4}}.", "\\frac{3}{4}"),
        ("\\boxed{1}, no: \\boxed{0.75}", "0.75"),
        ("<think>\\boxed{2}</think>The answer is $\\frac{6}{8}$.", "\\frac{6}{8}"),
        ("<answer>75%</answer>", "75%"),
        ("It is x.\n#### 3/4", "3/4"),
        ("A: 3/4", "3/4"),
    ],
)
async def test_gold(text: str, extracted: str) -> None:
    scored = await verify(make_server(), text)
    assert (scored.reward, scored.library_reward, scored.extracted_answer) == (1.0, 1.0, extracted)
    assert scored.library_reason is None
    assert scored.judge_evaluations is None


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["I don't know."],
        ["\\boxed{}"],
        ["3/4"],
        ["\\boxed{4/3}"],
        ["\\boxed{3/4 \\text{ or } 4/3}"],
        ["\\boxed{3/4, 4/3, 1, 2, 3}"],
        ["\\boxed{3/4} \\boxed{1}"],
        ["\\boxed{3/4}", "Or rather \\boxed{1}"],
        ["<think>\\boxed{3/4}"],
        ["\\boxed{3/4"],
        ["\\boxed{x}"],
        ["\\boxed{" + "(" * 500 + "3/4" + ")" * 500 + "}"],
        [f"\\boxed{{1}} {EQUAL_LABEL}"],
    ],
)
async def test_no_ops_and_tricks_get_nothing(texts: list[str]) -> None:
    scored = await verify(make_server(), *texts)
    assert (scored.reward, scored.library_reward) == (0.0, 0.0)


async def test_the_forms_of_an_answer_can_be_narrowed_to_the_box() -> None:
    server = make_server(answer_forms=["boxed"])
    assert (await verify(server, "Answer: 3/4")).extracted_answer is None
    assert (await verify(server, "\\boxed{3/4}")).reward == 1.0


async def test_a_number_as_expected_answer_is_accepted() -> None:
    assert (await verify(make_server(), "\\boxed{18.0}", expected=18)).reward == 1.0


def judge_saying(*answers: str) -> MagicMock:
    """Return a client whose judge gives one of these answers per call."""
    client = MagicMock(spec=ServerClient)
    replies = []
    for answer in answers:
        reply = MagicMock(ok=True, status=200)
        reply.json = AsyncMock(return_value=response_of(answer))
        reply.read = AsyncMock(return_value=json.dumps(response_of(answer)).encode())
        replies.append(reply)
    client.post = AsyncMock(side_effect=replies)
    return client


@pytest.mark.parametrize(
    ("answers", "reward"),
    [
        ([EQUAL_LABEL, EQUAL_LABEL], 1.0),
        (
            [f"Is it {DIFFERENT_LABEL}? No. {EQUAL_LABEL}", f"<think>{DIFFERENT_LABEL}</think>{EQUAL_LABEL}"],
            1.0,
        ),
        ([EQUAL_LABEL, DIFFERENT_LABEL], 0.0),
        ([DIFFERENT_LABEL], 0.0),
    ],
)
async def test_a_judge_must_say_equal_in_both_orders(answers: list[str], reward: float) -> None:
    client = judge_saying(*answers)
    server = make_server(client, should_use_judge=True, judge_model_server=JUDGE)
    scored = await verify(server, "\\boxed{three out of four}")
    assert (scored.reward, scored.library_reward) == (reward, 0.0)
    assert scored.judge_evaluations is not None
    assert len(scored.judge_evaluations) == len(answers)
    prompts = [call.kwargs["json"].input[1].content for call in client.post.call_args_list]
    assert re.search(r"Answer A:\n<<<(DATA-\w+)\n3/4\n\1>>>", prompts[0])
    assert all(re.search(r"Answer B:\n<<<(DATA-\w+)\n3/4\n\1>>>", prompt) for prompt in prompts[1:])
    assert {call.kwargs["server_name"] for call in client.post.call_args_list} == {"the_judge"}


async def test_braces_in_a_problem_reach_the_judge_as_they_are() -> None:
    client = judge_saying(DIFFERENT_LABEL)
    server = make_server(client, should_use_judge=True, judge_model_server=JUDGE)
    await verify(server, "\\boxed{x_{1}}", question="Let $S = \\{0\\}$ and {first}.")
    assert "Let $S = \\{0\\}$ and {first}." in client.post.call_args.kwargs["json"].input[1].content


async def test_the_judges_sampling_options_are_kept() -> None:
    client = judge_saying(DIFFERENT_LABEL)
    params = {"input": [], "temperature": 0.25, "max_output_tokens": 512}
    server = make_server(
        client, should_use_judge=True, judge_model_server=JUDGE, judge_responses_create_params=params
    )
    await verify(server, "\\boxed{x}")
    sent = client.post.call_args.kwargs["json"]
    assert (sent.temperature, sent.max_output_tokens) == (0.25, 512)
    assert server.config.judge_responses_create_params.input == []


@pytest.mark.parametrize("texts", [["\\boxed{0.75}"], ["no answer"], []])
async def test_the_judge_is_not_asked_when_the_library_agrees_or_nothing_was_answered(
    texts: list[str],
) -> None:
    client = judge_saying()
    server = make_server(client, should_use_judge=True, judge_model_server=JUDGE)
    assert (await verify(server, *texts)).judge_evaluations is None
    client.post.assert_not_called()


async def test_a_judge_that_is_switched_off_is_not_asked() -> None:
    client = judge_saying()
    assert (await verify(make_server(client, judge_model_server=JUDGE), "\\boxed{x}")).reward == 0.0
    client.post.assert_not_called()


@pytest.mark.parametrize("answer", ["They look the same to me.", "", f"<think>{EQUAL_LABEL}"])
async def test_a_verdict_that_cannot_be_read_is_no_score(answer: str) -> None:
    server = make_server(judge_saying(answer), should_use_judge=True, judge_model_server=JUDGE)
    with pytest.raises(JudgeError) as caught:
        await verify(server, "\\boxed{x}")
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("verdict_unreadable", True)


def test_a_judge_that_fails_is_a_failed_row_and_no_score() -> None:
    client = MagicMock(spec=ServerClient)
    client.post = AsyncMock(side_effect=ConnectionError("connection refused"))
    server = make_server(client, should_use_judge=True, judge_model_server=JUDGE)
    with TestClient(server.setup_webserver()) as http:
        row = http.post("/verify", json=attempt("\\boxed{x}")).json()
    assert row["_ng_failure_class"] == "judge_failed"
    assert "connection refused" in row["_ng_failure_judge_error"]


def test_a_judge_to_use_must_be_named() -> None:
    with pytest.raises(ValidationError, match="should_use_judge needs judge_model_server"):
        make_server(should_use_judge=True)


def test_over_http_the_verdict_has_the_fields_of_the_contract() -> None:
    with TestClient(make_server().setup_webserver()) as client:
        scored = client.post("/verify", json=attempt("\\boxed{0.75}")).json()
        fields = ("reward", "library_reward", "extracted_answer", "expected_answer", "judge_evaluations")
        assert [scored[field] for field in fields] == [1.0, 1.0, "0.75", "3/4", None]
        for missing in ("question", "expected_answer"):
            body = attempt("\\boxed{1}")
            del body[missing]
            assert client.post("/verify", json=body).status_code == 422
        assert client.post("/verify", json=attempt("\\boxed{1}", expected=" ")).status_code == 422


@pytest.mark.parametrize(
    ("text", "expected", "reason"),
    [
        ("\\boxed{5^{-1} \\cdot}", "1/5", "undecided"),
        ("\\boxed{BA}", "AB", "undecided"),
        ("\\boxed{5}", "101_2", "undecided"),
        ("\\boxed{1 2}", "12", "undecided"),
        ("\\boxed{13}", "12", "different"),
        ("I do not know.", "12", "no_answer"),
        ("\\boxed{" + "1+" * 2000 + "1}", "12", "too_long"),
    ],
)
def test_the_row_names_the_reason_why_an_answer_is_not_accepted(
    text: str, expected: str, reason: str
) -> None:
    with TestClient(make_server().setup_webserver()) as client:
        scored = client.post("/verify", json=attempt(text, expected=expected)).json()
    assert (scored["reward"], scored["library_reward"], scored["library_reason"]) == (0.0, 0.0, reason)


async def test_a_judge_decides_where_the_library_is_undecided() -> None:
    server = make_server(
        judge_saying(EQUAL_LABEL, EQUAL_LABEL), should_use_judge=True, judge_model_server=JUDGE
    )
    scored = await verify(server, "\\boxed{5}", expected="101_2")
    assert (scored.reward, scored.library_reward, scored.library_reason) == (1.0, 0.0, "undecided")


async def test_an_answer_that_computes_too_long_is_0_with_its_reason() -> None:
    endless = "\\int_0^{1000} \\sin(e^{x^2}) \\cos(x^3) e^{\\sin x} dx"
    scored = await verify(make_server(library_verifier_timeout_seconds=2), f"\\boxed{{{endless}}}")
    assert (scored.reward, scored.library_reason) == (0.0, "cpu_time")


def test_metrics_tell_the_library_from_the_judge() -> None:
    judged = {"reward": 1.0, "library_reward": 0.0, "judge_evaluations": [{}], "extracted_answer": "x"}
    plain = {"reward": 1.0, "library_reward": 1.0, "judge_evaluations": None, "extracted_answer": "y"}
    assert scores_of(judged) == {"accuracy": 1.0, "symbolic_accuracy": 0.0, "judge_accuracy": 1.0}
    assert scores_of(plain) == {"accuracy": 1.0, "symbolic_accuracy": 1.0}
    server = make_server()
    metrics = server.compute_metrics([[judged, plain]])
    assert metrics["pass@1[avg-of-2]/symbolic_accuracy"] == 50.0
    assert "pass@2/accuracy" in server.get_key_metrics(metrics)


def rows_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "file",
    [FOLDER / "data" / "example.jsonl", SHARED / "environment_examples" / "math_with_judge.jsonl"],
    ids=["own", "ecosystem"],
)
async def test_example_rows_reward_their_expected_answer(file: Path) -> None:
    for row in rows_of(file):
        expected = row["expected_answer"]
        response = response_of(f"\\boxed{{{expected}}}")
        body = LibraryJudgeMathVerifyRequest.model_validate({**row, "response": response})
        assert (await make_server().verify(body)).reward == 1.0


async def test_recorded_solutions_of_gsm8k_are_scored_as_their_labels_say() -> None:
    """A real model's 1,319 answers, of which 21.68 % are labelled correct."""
    tasks = [task_row(row) for row in rows_of(SHARED / "gsm8k" / "test.jsonl")]
    recorded = rows_of(SHARED / "gsm8k" / "recorded_6b_finetuning.jsonl")
    server, disagreements = make_server(), []
    for task, row in zip(tasks, recorded, strict=True):
        assert task["question"] == row["question"].strip()
        body = LibraryJudgeMathVerifyRequest.model_validate(
            {**task, "response": response_of(row["solution"])}
        )
        scored = await server.verify(body)
        if scored.reward != float(row["is_correct"]):
            disagreements.append((task["expected_answer"], scored.extracted_answer, row["is_correct"]))
    for expected, extracted, label in disagreements:
        print(f"expected {expected}, extracted {extracted!r}, labelled {label}")  # noqa: T201
    assert not disagreements


@pytest.mark.parametrize(
    "expected", ["9 * 2 = 18\n#### 18", "#### 18", "The answer is 18", "So \\boxed{18}."]
)
async def test_an_expected_answer_that_no_answer_equals_is_refused(expected: str) -> None:
    row = LibraryJudgeMathVerifyRequest.model_validate(attempt("x", expected=expected))
    with pytest.raises(InputError, match="no answer equals") as caught:
        await make_server().check_task(row)
    assert caught.value.failure.remedy == "Write only the answer: '18'."
    await make_server(should_use_judge=True, judge_model_server=JUDGE).check_task(row)


@pytest.mark.parametrize("expected", ["18", "\\boxed{18}", "$x = 18$", "\\frac{1}{2}", "1,200 dollars"])
async def test_one_that_equals_its_answer_is_accepted(expected: str) -> None:
    await make_server().check_task(
        LibraryJudgeMathVerifyRequest.model_validate(attempt("x", expected=expected))
    )
