"""A run that grows while its page is open."""

from __future__ import annotations

import json
from pathlib import Path

from tests.browser.conftest import serving
from tests.browser.rows import message, row_of, write_run
from tests.browser.visits import Visit


def test_new_rows_appear_and_the_view_stays(tmp_path: Path, visit: Visit) -> None:
    rows = [row_of(task, 0, [message("x")], task % 2) for task in range(50)]
    run = write_run(tmp_path / "out.jsonl", rows)
    with serving([run]) as address:
        visit.open(address, "#/r0/rollouts?q=reward=1")
        visit.wait_for("25 of 50")
        visit.press("j", "j", "j")
        with run.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row_of(50, 0, [message("x")], 1.0)) + "\n" + '{"torn')
            file.flush()
            visit.wait_for("26 of 51")
        assert visit.page.locator("#filter").input_value() == "reward=1"
        assert visit.page.locator(".grid-row.active").get_attribute("aria-rowindex") == "5"


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
