"""Gold, no-op and adversarial answers to questions with one right answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import InputError
from nemo_gym.server_utils import ServerClient
from nemo_gym.testing import run_environment
from resources_servers.string_match.app import (
    StringMatchResourcesServer,
    StringMatchResourcesServerConfig,
    StringMatchRunRequest,
    StringMatchVerifyRequest,
)
from tests.verify.judges import response_of

FOLDER = Path(__file__).parents[1]
SHARED = FOLDER.parents[2] / "shared" / "data" / "environment_examples" / "string_match.jsonl"
FORMS = {
    "boxed": "So it is \\boxed{{{answer}}}.",
    "final_answer": "So it is.\nFinal answer: {answer}",
    "last_line": "So it is.\n\n{answer}",
    "full_response": "{answer}",
}


def make_server() -> StringMatchResourcesServer:
    config = StringMatchResourcesServerConfig(host="", port=0, entrypoint="", name="")
    return StringMatchResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))


def attempt(*texts: str, expected: Any = "Paris", mode: str = "final_answer", **row: Any) -> dict[str, Any]:
    params = {"input": [{"role": "user", "content": "Which?"}]}
    fields = {"responses_create_params": params, "expected_answer": expected, "extraction_mode": mode}
    return {**fields, **row, "response": response_of(*texts)}


async def score(*texts: str, **row: Any) -> tuple[float, str | None]:
    scored = await make_server().verify(StringMatchVerifyRequest.model_validate(attempt(*texts, **row)))
    return scored.reward, scored.extracted_answer


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("Final answer: paris.", {}),
        ("Answer: **Paris**", {}),
        ("The answer is Paris.", {}),
        ("It is \\boxed{Paris}", {}),
        ("Final answer: Rome\nNo. Final answer: Paris", {}),
        ("<think>Final answer: Rome</think>Final answer: Paris", {}),
        ("\\boxed{\\text{Paris}}", {"mode": "boxed"}),
        ("\\boxed{Rome} \\boxed{$Paris$}", {"mode": "boxed"}),
        ("I think.\n\n PARIS! \n", {"mode": "last_line"}),
        ('"paris"', {"mode": "full_response"}),
        ("Paris", {"mode": "full_response", "case_sensitive": True}),
        ("Final answer: 1,200", {"expected": "1200"}),
        ("Final answer: 0.75", {"expected": "3/4"}),
        ("Final answer: $80", {"expected": 80}),
        ("The answer is St. Louis.", {"expected": "St. Louis"}),
        ("The answer is J. K. Rowling. She wrote it.", {"expected": "J. K. Rowling"}),
        ("The answer is Paris. It is large.", {}),
        ("Final answer: Rock ’n’ Roll", {"expected": "Rock 'n' Roll"}),
        ("Final answer: “O’Brien”", {"expected": "O'Brien"}),
        ("Final answer: 5!", {"expected": "5!"}),
        (r"\boxed{2^{2016} - 1}", {"expected": "2^{2016}-1"}),
        (r"\boxed{x²+\dfrac12 x}", {"expected": r"x^2 + \frac{1}{2}x"}),
        (r"\boxed{12\pi \, \mathrm{cm}^2}", {"expected": r"12\pi\text{ cm}^2"}),
        (r"\boxed{\pi/2}", {"expected": r"$\frac{\pi}{2}$"}),
        (r"\boxed{3:30\text{ PM}}", {"expected": r"3:30 \text{ p.m.}"}),
        ("Final answer: 8:00 AM", {"expected": r"8:00\text{ a.m.}"}),
        ("Final answer: 7 pm", {"expected": "7 p.m."}),
        (r"\boxed{B}", {"expected": r"\text{(B)}"}),
        (r"\boxed{\mathbf{(E)}}", {"expected": "E"}),
        (r"\boxed{\textbf{(C)}\ 25}", {"expected": r"\textbf{(C) }25"}),
        (r"\boxed{\text{A, C, F, H}}", {"expected": "A,C,F,H"}),
        (r"\boxed{1,2,3}", {"expected": "1, 2, 3"}),
        (r"\boxed{10^{-3}}", {"expected": "0.001"}),
        (r"\boxed{-10^5}", {"expected": "-100,000"}),
        ("Answer: x = 18", {"expected": "18"}),
        ("Answer: $n = 18$", {"expected": "18"}),
        ("CO₂", {"mode": "full_response", "expected": ["carbon dioxide", "CO2"]}),
        ("Final answer: 10²", {"expected": "10^2"}),
        ("Final answer: 2½", {"expected": "2.5"}),
    ],
)
async def test_right_answers(text: str, row: dict[str, Any]) -> None:
    assert (await score(text, **row))[0] == 1.0


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("", {}),
        ("Paris", {}),
        ("Final answer:", {}),
        ("Final answer: Paris or Rome", {}),
        ("Final answer: Paris, Rome, Berlin", {}),
        ("Final answer: Paris\nFinal answer: Rome", {}),
        ("<think>Final answer: Paris", {}),
        ("\\boxed{Paris} or \\boxed{Rome}", {"mode": "boxed"}),
        ("Paris", {"mode": "boxed"}),
        ("Paris\nor so", {"mode": "last_line"}),
        ("Paris, of course", {"mode": "full_response"}),
        ("paris", {"mode": "full_response", "case_sensitive": True}),
        ("Final answer: 81", {"expected": "80"}),
        ("Final answer: not Paris", {}),
        ("The answer isn't Paris", {}),
        ("Final answer: 5!", {"expected": "5"}),
        ("Final answer: n!", {"expected": "n"}),
        ("The answer is St. Louis.", {"expected": "St"}),
        ("The answer is J. K. Rowling.", {"expected": "J"}),
        ("Final answer: 5 km", {"expected": "5 m"}),
        ("Final answer: 80 or 81", {"expected": "80"}),
        ("Final answer: 0.7", {"expected": "0.75"}),
        ("expected_answer", {"mode": "full_response"}),
        (r"\boxed{2^{2016} + 1}", {"expected": "2^{2016}-1"}),
        (r"\boxed{3:30\text{ AM}}", {"expected": r"3:30\text{ p.m.}"}),
        (r"\boxed{(B), (C)}", {"expected": "B"}),
        (r"\boxed{A, C, F}", {"expected": "A,C,F,H"}),
        (r"\boxed{1, 234}", {"expected": "1,234"}),
        (r"\boxed{1 2}", {"expected": "12"}),
        (r"\boxed{10^{-3}}", {"expected": "0.01"}),
        ("Answer: x = 18 or x = 19", {"expected": "18"}),
        ("Answer: 2x = 18", {"expected": "18"}),
        ("Answer: x = 18", {"expected": "y = 18"}),
        ("Final answer: 5 m s", {"expected": "5 ms"}),
        ("Final answer: 10²", {"expected": "102"}),
        ("Final answer: 102", {"expected": "10²"}),
        ("Final answer: 10₂", {"expected": "102"}),
        ("Final answer: 2½", {"expected": "21⁄2"}),
        ("Final answer: 10②", {"expected": "102"}),
        ("Final answer: A10²", {"expected": "A102"}),
    ],
)
async def test_no_ops_and_tricks_get_nothing(text: str, row: dict[str, Any]) -> None:
    assert (await score(text, **row))[0] == 0.0


async def test_only_the_last_message_counts() -> None:
    assert await score("Final answer: Paris", "Final answer: Rome") == (0.0, "Rome")
    assert await score() == (0.0, None)


@pytest.mark.parametrize("expected", ["", " ", []])
async def test_a_row_without_an_answer_is_an_error(expected: Any) -> None:
    with pytest.raises(InputError, match="expected_answer: missing"):
        await score("x", expected=expected)


def test_over_http_bad_rows_are_named() -> None:
    with TestClient(make_server().setup_webserver()) as client:
        scored = client.post("/verify", json=attempt("Final answer: Paris")).json()
        assert (scored["reward"], scored["extracted_answer"], scored["expected_answer"]) == (
            1.0,
            "Paris",
            "Paris",
        )
        answer = client.post("/verify", json=attempt("x", mode="first_line"))
        assert answer.status_code == 422
        assert "extraction_mode" in answer.text


def rows_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("file", [FOLDER / "data" / "example.jsonl", SHARED], ids=["own", "ecosystem"])
async def test_example_rows_reward_their_expected_answer(file: Path) -> None:
    for row in rows_of(file):
        expected = row["expected_answer"]
        for answer in expected if isinstance(expected, list) else [expected]:
            text = FORMS[row["extraction_mode"]].format(answer=answer)
            body = StringMatchVerifyRequest.model_validate({**row, "response": response_of(text)})
            assert (await make_server().verify(body)).reward == 1.0
        body = StringMatchVerifyRequest.model_validate({**row, "response": response_of("I pass.")})
        assert (await make_server().verify(body)).reward == 0.0


def test_metrics_take_the_majority_of_answers() -> None:
    server = make_server()
    rows = [{"reward": float(answer == "a"), "extracted_answer": answer} for answer in ("a", "a", "b")]
    metrics = server.compute_metrics([rows])
    assert metrics["majority@3/accuracy"] == 100.0
    assert "majority@3/accuracy" in server.get_key_metrics(metrics)


def test_a_right_answer_is_rewarded_by_the_whole_gym() -> None:
    row = rows_of(FOLDER / "data" / "example.jsonl")[1]
    scored = run_environment(StringMatchResourcesServer, [row], ["Final answer: 15"])
    assert [(one["reward"], one["extracted_answer"]) for one in scored] == [(1.0, "15")]


@pytest.mark.parametrize(
    ("expected", "mode"),
    [
        ("9 * 2 = 18\n#### 18", "final_answer"),
        ("9 * 2 = 18\n#### 18", "last_line"),
        ("#### 18", "boxed"),
        ("The answer is Paris.", "final_answer"),
        (["Paris", "<answer>Paris</answer>"], "final_answer"),
        ([], "final_answer"),
        (" ", "full_response"),
    ],
)
async def test_a_task_that_no_answer_solves_is_refused(expected: Any, mode: str) -> None:
    row = StringMatchRunRequest.model_validate(attempt("x", expected=expected, mode=mode))
    with pytest.raises(InputError, match="expected_answer"):
        await make_server().check_task(row)


@pytest.mark.parametrize(
    ("expected", "mode"),
    [
        ("18", "final_answer"),
        ("\\boxed{18}", "final_answer"),
        ("#### 18", "last_line"),
        ("The answer is Paris.", "full_response"),
        ("A: Paris", "boxed"),
    ],
)
async def test_one_that_some_answer_solves_is_accepted(expected: Any, mode: str) -> None:
    row = attempt(expected, expected=expected, mode=mode)
    await make_server().check_task(StringMatchRunRequest.model_validate(row))
