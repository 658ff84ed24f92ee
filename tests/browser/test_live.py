"""A run that grows while its page is open."""

from __future__ import annotations

import json
from pathlib import Path

from tests.browser.conftest import serving
from tests.browser.rows import failure_of, message, row_of, write_log, write_run
from tests.browser.visits import Visit


def test_new_rows_appear_and_the_view_stays(tmp_path: Path, visit: Visit) -> None:
    rows = [row_of(task, 0, [message("x")], task % 2) for task in range(500)]
    run = write_run(tmp_path / "out.jsonl", rows)
    with serving([run]) as address:
        visit.open(address, "#/r0/rollouts?q=reward=1")
        visit.wait_for("250 of 500")
        visit.press("j", "j", "j")
        area = visit.page.locator(".grid-rows")
        area.evaluate("(area) => area.scrollTo(0, 40)")
        with run.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row_of(500, 0, [message("x")], 1.0)) + "\n" + '{"torn')
            file.flush()
            visit.wait_for("251 of 501")
        assert area.evaluate("(area) => area.scrollTop") == 40
        assert visit.page.locator("#filter").input_value() == "reward=1"
        assert visit.page.locator(".grid-row.active").get_attribute("aria-rowindex") == "5"


def test_a_killed_run_can_be_resumed(tmp_path: Path, visit: Visit) -> None:
    run = write_run(
        tmp_path / "out.jsonl", [row_of(0, 0, [message("x")])], [failure_of(1, 0, message="late")]
    )
    write_log(run, "policy")
    with run.open("a", encoding="utf-8") as file:
        file.write('{"_ng_task_index": 7, "reward"')
    with serving([run]) as address:
        visit.open(address)
        visit.wait_for("stopped, resumable", "tbody tr")
        visit.go("#/r0")
        visit.wait_for("The run ended without a closing", ".notice")
        visit.wait_for("2 of 12", ".figures")
        figures = visit.text(".figures").split("\n")
        assert {
            name: figures[figures.index(name) + 1].split()[0] for name in ("Scored", "Failed", "Missing")
        } == {
            "Scored": "1",
            "Failed": "1",
            "Missing": "10",
        }
        notice = visit.text(".notice")
        assert "1 scored rollout of 12 planned, and 1 failed attempt" in notice
        assert "+resume_from_cache=true" in notice
        visit.go("#/r0/rollouts")
        visit.wait_for("1 of 1")


def test_the_table_has_at_most_a_hundred_rows(tmp_path: Path, visit: Visit) -> None:
    run = write_run(tmp_path / "out.jsonl", (row_of(task, 0, [], 1.0) for task in range(20_000)))
    with serving([run]) as address:
        visit.open(address, "#/r0/rollouts")
        visit.wait_for("20,000 of 20,000")
        visit.press("End")
        visit.wait_for("19999", ".grid-row.active")
        assert visit.page.locator(".grid-rows [role=row]").count() <= 100


def test_long_rollouts_open(tmp_path: Path, visit: Visit) -> None:
    calls = [
        item
        for number in range(500)
        for item in (
            {"type": "function_call", "call_id": str(number), "name": "step", "arguments": "{}"},
            {"type": "function_call_output", "call_id": str(number), "output": "result\n" * 50},
        )
    ]
    long = "".join(f"line {number} of the output\n" for number in range(900_000))
    output = {"type": "function_call_output", "call_id": "x", "output": long}
    run = write_run(tmp_path / "out.jsonl", [row_of(0, 0, [*calls, message("done")]), row_of(1, 0, [output])])
    with serving([run]) as address:
        visit.open(address, "#/r0/rollout/0/0")
        visit.wait_for("call step", ".transcript")
        assert visit.page.locator("main *").count() < 3000
        visit.go("#/r0/rollout/1/0")
        visit.wait_for("line 0 of the output", ".transcript")
        visit.page.locator(".item.voice-output summary").click()
        visit.page.get_by_role("button", name="show all").click()
        lines = visit.page.locator(".lines")
        lines.evaluate("(area) => area.scrollTo(0, area.scrollHeight)")
        visit.wait_for("line 899999 of the output", ".lines")
        assert visit.page.locator(".lines .line").count() <= 100
