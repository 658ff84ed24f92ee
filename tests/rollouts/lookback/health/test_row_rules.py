"""Each planted fault of a row is found at its line, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.rows.compose import note_failed_call
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from tests.rollouts.lookback.health.healthy_run import (
    check,
    healthy_rows,
    last_item,
    names_found,
    prose,
    tokens,
    write,
)

Row = dict[str, Any]
ROWS = (3, 1_000, 1_999)
"""The indices of rows with planted faults."""


def add_call(row: Row, arguments: str, times: int = 1) -> None:
    call = {"type": "function_call", "call_id": "d", "name": "shell", "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "d", "output": "done"}
    row["response"]["output"][1:1] = [call | tokens(), result] * times


def without_tokens(row: Row) -> None:
    for item in row["response"]["output"]:
        for field in [name for name in item if name.startswith(("prompt_", "generation_"))]:
            del item[field]


def plant_failed_call(row: Row, kind: ToolErrorKind) -> None:
    note_failed_call(row, FailedCall("shell", kind, "ValueError: boom", "app.py:3"))


LOOP = "{}. Wait, maybe I should check that again.\n"
CHANCE = random.Random(1)
ROW_FAULTS: list[tuple[str, str, Callable[[Row], Any]]] = [
    ("bad_reward", "no reward", lambda row: row.update(reward=None)),
    ("bad_reward", "failed", lambda row: row.update(_ng_failure_class="judge_failed")),
    ("empty_turn", "blank message", lambda row: write(row, " \n")),
    ("empty_turn", "reasoning alone", lambda row: last_item(row).update(type="reasoning", summary=[])),
    ("repetition", "a loop of a line", lambda row: write(row, "I will try again now.\n" * 200)),
    (
        "repetition",
        "a loop of paragraphs after prose",
        lambda row: write(row, prose(CHANCE, 900) + prose(CHANCE, 60) * 40),
    ),
    ("repetition", "a loop that counts", lambda row: write(row, "".join(map(LOOP.format, range(300))))),
    ("repetition", "the same call", lambda row: add_call(row, '{"command": "ls"}', times=10)),
    (
        "broke_verifier",
        "by an exception",
        lambda row: row.update(
            reward=0.0, correct=False, answer_fault="raised", answer_fault_detail="KeyError"
        ),
    ),
    ("truncated", "by its outcome", lambda row: row.update(_ng_outcome="truncated")),
    (
        "truncated",
        "by its response",
        lambda row: row["response"].update(incomplete_details={"reason": "max_output_tokens"}),
    ),
    ("missing_tokens", "of one turn", lambda row: last_item(row).pop("generation_token_ids")),
    ("missing_tokens", "of a row", without_tokens),
    ("missing_tokens", "NaN", lambda row: last_item(row).update(generation_log_probs=[None] * 40)),
    (
        "missing_tokens",
        "a record of none",
        lambda row: (
            last_item(row).pop("generation_token_ids"),
            last_item(row).update(_ng_tokens={"call": 1, "masked": "missing_token_ids"}),
        ),
    ),
    (
        "certain_logprobs",
        "all 0",
        lambda row: [
            item.update(generation_log_probs=[0.0] * len(item["generation_log_probs"]))
            for item in row["response"]["output"]
            if "generation_log_probs" in item
        ],
    ),
    ("tool_raised", "by its code", lambda row: plant_failed_call(row, ToolErrorKind.RAISED)),
    ("tool_failed", "without a route", lambda row: plant_failed_call(row, ToolErrorKind.NO_ROUTE)),
    ("tool_failed", "against its declaration", lambda row: plant_failed_call(row, ToolErrorKind.MISMATCH)),
    ("reward_disagrees", "with a verdict", lambda row: row.update(correct=not row["correct"])),
    (
        "answer_leaked",
        "in the prompt",
        lambda row: row["responses_create_params"]["input"][0].update(
            content=f"Hint: {row['expected_answer']}."
        ),
    ),
    (
        "answer_leaked",
        "in a tool result",
        lambda row: row["response"]["output"][2].update(output=f"found: {row['expected_answer']}"),
    ),
    ("verifier_touched", "by a call", lambda row: add_call(row, '{"command": "echo 1 > /logs/reward.txt"}')),
]


@pytest.mark.parametrize(
    ("rule", "plant"), [pytest.param(rule, plant, id=f"{rule}: {name}") for rule, name, plant in ROW_FAULTS]
)
def test_planted_faults_in_rows_are_found_at_their_lines(
    tmp_path: Path, rule: str, plant: Callable[[Row], Any]
) -> None:
    rows = healthy_rows()
    for index in ROWS:
        plant(rows[index])
    report = check(tmp_path, rows)
    assert names_found(report) == [rule]
    assert [(found.line, found.task, found.repeat) for found in report.rules[rule].first] == [
        (index + 1, rows[index]["_ng_task_index"], rows[index]["_ng_rollout_index"]) for index in ROWS
    ]


@pytest.mark.parametrize(
    "text",
    [
        orjson.dumps([{"id": n, "price": n * 7 % 1000, "in_stock": True} for n in range(400)]).decode(),
        Path(__file__).read_text(encoding="utf-8"),
        " ".join(str(n * n % 7 % 2) + str(n % 5) for n in range(40)) + "\n" * 100,
    ],
    ids=["JSON", "code", "short"],
)
def test_regular_text_is_no_repetition(tmp_path: Path, text: str) -> None:
    rows = healthy_rows()[:4]
    write(rows[0], text)
    assert "repetition" not in names_found(check(tmp_path, rows))


def test_a_truncated_rollout_may_end_with_an_empty_turn(tmp_path: Path) -> None:
    rows = healthy_rows()[:8]
    for row in rows[:2]:
        row["_ng_outcome"] = "truncated"
        write(row, "")
    rows[0]["response"]["output"] = []
    rows[2]["response"]["output"] = []
    found = check(tmp_path, rows).rules["empty_turn"].first
    assert [(each.line, each.text) for each in found] == [(3, "the response has no output")]


def test_calls_that_the_model_got_wrong_are_no_fault_of_the_data(tmp_path: Path) -> None:
    rows = healthy_rows()[:4]
    plant_failed_call(rows[0], ToolErrorKind.REJECTED)
    plant_failed_call(rows[0], ToolErrorKind.INVALID_JSON)
    assert not {"tool_raised", "tool_failed"} & set(names_found(check(tmp_path, rows)))


def test_the_finding_has_count_tool_cause_and_place(tmp_path: Path) -> None:
    rows = healthy_rows()[:4]
    plant_failed_call(rows[0], ToolErrorKind.RAISED)
    plant_failed_call(rows[0], ToolErrorKind.RAISED)
    (found,) = check(tmp_path, rows).rules["tool_raised"].first
    assert found.text == "2 x `shell`: ValueError: boom (app.py:3)"
