"""Damaged and odd files are named on the pages, and what is left of their runs can be read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.browser.conftest import serving
from tests.browser.rows import message, row_of, write_run
from tests.browser.visits import Visit

DEEP = "[" * 100_000 + "]" * 100_000


def test_damaged_runs_are_listed_with_their_problems(tmp_path: Path, visit: Visit) -> None:
    for name in ("good", "torn"):
        write_run(tmp_path / f"{name}.jsonl", [row_of(0, 0, [message("an answer")])])
    (tmp_path / "torn_run.json").write_text('{"starts": [{"counts": 5}]}')
    (tmp_path / "torn_aggregate_metrics.json").write_text("[{")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with serving([tmp_path]) as address:
        visit.open(address)
        visit.wait_for("3 runs")
        lines = {line.locator("a").inner_text(): line for line in visit.page.locator("tbody tr").all()}
        assert lines.keys() == {"good", "torn", "pipe"}
        assert lines["good"].locator(".problems").count() == 0
        problems = lines["torn"].locator(".problems li").all_inner_texts()
        assert problems[0].startswith("torn_run.json is damaged: starts[0].counts: ")
        assert problems[1].startswith("torn_aggregate_metrics.json is not JSON")
        assert lines["pipe"].locator(".problems li").all_inner_texts() == ["pipe.jsonl is a named pipe"]
        lines["torn"].locator("a").click()
        visit.wait_for("torn_run.json is damaged", ".run-problems")
        visit.wait_for("Reward by agent")


def test_odd_rows_show_what_is_in_them(tmp_path: Path, visit: Visit) -> None:
    run = write_run(tmp_path / "out.jsonl", [row_of(0, 0, [message("an answer")])])
    odd = [
        DEEP,
        f'{{"_ng_task_index": 9, "response": {DEEP}}}',
        "[1, 2]",
        "null",
        '"text"',
        "{torn",
        json.dumps({"_ng_task_index": 7, "responses_create_params": 3, "response": "a text", "reward": 0.5}),
        json.dumps(
            {"_ng_task_index": 8, "responses_create_params": {"input": 4}, "response": {"output": {"a": 1}}}
        ),
    ]
    with run.open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in odd))
    with serving([run]) as address:
        visit.open(address, "#/r0/rollouts")
        visit.wait_for("9 of 9")
        visit.wait_for("an answer", ".grid-rows")
        start = len(run.read_text(encoding="utf-8").splitlines()[0]) + 1
        for line in odd:
            if not line.startswith('{"_ng_task_index": 7') and not line.startswith('{"_ng_task_index": 8'):
                visit.go(f"#/r0/rollout/-/-?at={start}")
                visit.wait_for(f"Row at byte {start}", "h1")
                visit.wait_for("cannot be read as a JSON object", ".notice")
            start += len(line) + 1
        visit.go("#/r0/rollouts?q=outcome:unreadable")
        visit.wait_for("6 of 9")
        visit.page.locator(".grid-rows a").nth(2).click()
        visit.wait_for("[1, 2]", "#raw-row")
        visit.go("#/r0/rollout/7/0")
        visit.wait_for("Task 7", "h1")
        visit.wait_for("The rollout has no items.", ".transcript")
        visit.go("#/r0/rollout/8/0")
        visit.wait_for("Task 8", "h1")
        visit.wait_for("a: 1", ".transcript")
