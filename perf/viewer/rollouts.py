"""Single rollouts, live and killed runs, comparisons, flags, and exported files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from nemo_gym import PARENT_DIR
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from nemo_gym.viewer.exporting import export_page
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.finding import find_runs
from perf.viewer.fixtures import (
    Fact,
    facts_of,
    first_lines,
    line_of,
    write_flips,
    write_long,
    write_runs,
    write_table,
    write_tokens,
)
from perf.viewer.pages import Report, opened, served, timed, visiting, wait_for_count
from tests.browser.hostile import PAYLOADS, poisoned
from tests.browser.rows import message, row_of, write_run

APPENDED = 5
KILLED_RUN = Path("tests") / "rollouts" / "killable_run.py"


def measure_long(report: Report, browser: Any, folder: Path, scale: int) -> None:
    """Group 6: many calls, and a long output."""
    path = write_long(folder / "long.jsonl", max(20, 500 // scale), 20_000_000 // scale)
    lines = first_lines(path, 2)
    with served(path) as server, visiting(browser) as visit:
        opened(visit, server.address, "#/r0", "h1")
        for task, name in ((0, "500 calls"), (1, "an output of 20 MB")):
            visit.go(f"#/r0/rollout/{task}/0")
            seconds = timed(visit.page.locator(".transcript .item").nth(1).wait_for)
            report.note(6, f"a rollout of {name} (1/{scale})", seconds, "s", 1.0)
            shown = visit.page.locator("main *").count()
            report.check(6, f"fewer than 3,000 elements for {name}", shown < 3000, True)
        start = 0
        for task, line in enumerate(lines):
            place = f"{server.address.split('?')[0]}api/runs/r0/rows/{start}-{len(line)}"
            report.check(
                6,
                f"raw row {task} is the line of the file",
                visit.page.request.get(place).body() == line,
                True,
            )
            start += len(line)


def measure_tokens(report: Report, browser: Any, folder: Path, tokens: int) -> None:
    """Group 8: the last tokens of a long rollout are those of `build_segments`."""
    path = write_tokens(folder / "tokens.jsonl", tokens)
    (line,) = first_lines(path, 1)
    (segment,) = build_segments(read_calls(orjson.loads(line)))
    with served(path) as server, visiting(browser) as visit:
        opened(visit, server.address, "#/r0", "h1")
        visit.go("#/r0/rollout/0/0?tab=tokens")
        seconds = timed(visit.page.locator(".token[data-at]").first.wait_for)
        report.note(8, f"first of {tokens:,} tokens", seconds, "s", 1.0)
        area = visit.page.locator(".token-text")
        last = visit.page.locator(f'.token[data-at="{tokens - 1}"]')

        def scroll() -> None:
            area.evaluate("(area) => area.scrollTo(0, area.scrollHeight)")
            last.wait_for()

        report.note(8, f"from the first to the last of {tokens:,} tokens", timed(scroll), "s", 1.0)
        report.check(8, "text of the last token", last.inner_text().strip(), f"w{segment.token_ids[-1]}")
        shown = visit.page.locator(".token[data-at]").count()
        report.check(8, "at most 4,000 tokens in the DOM", shown <= 4000, True)
        report.note(8, "tokens in the DOM", shown, "tokens")
        last.click()
        facts = visit.text(".token-facts")
        report.check(8, "log-probability of the last token", str(segment.logprobs[-1]) in facts, True)


def measure_live(report: Report, browser: Any, folder: Path) -> None:
    """Group 5: rows of a growing file, and a collector that was killed."""
    path = write_table(folder / "live.jsonl", 1000).path
    with served(path) as server, visiting(browser) as visit, path.open("ab", buffering=0) as file:
        opened(visit, server.address, "#/r0/rollouts", ".grid-rows [role=row]")
        wait_for_count(visit, 1000, 1000)
        later: list[Fact] = list(facts_of(1000 + APPENDED, 9))[1000:]
        for number, fact in enumerate(later, start=1):
            file.write(line_of(fact, b"new"))
            seconds = timed(partial(wait_for_count, visit, 1000 + number, 1000 + number))
            report.note(5, f"new row {number} of a file without a collector", seconds, "s")
    _measure_killed(report, browser, folder)


def measure_folder(report: Report, browser: Any, folder: Path, runs: int) -> None:
    """Group 11: a folder of many runs, and one that is added."""
    write_runs(folder, range(runs))
    with served(folder) as server, visiting(browser) as visit:
        seconds = opened(visit, server.address, "#/", "tbody tr")
        report.note(11, f"list of {runs:,} runs", seconds, "s", 1.0)
        for number in range(runs, runs + APPENDED):
            write_runs(folder, range(number, number + 1))
            seconds = timed(partial(visit.wait_for, f"model_{number}", "tbody tr"))
            report.note(11, f"time until run {number:,} is listed", seconds, "s", 2.0)
        listed = visit.page.request.get(server.address.split("?")[0] + "api/runs").json()["runs"]
        report.check(11, "listed runs", len(listed), runs + APPENDED)


def _measure_killed(report: Report, browser: Any, folder: Path) -> None:
    tasks = [
        {"responses_create_params": {"input": f"Question {n}"}, "agent_ref": {"name": "simple_agent"}}
        for n in range(20_000)
    ]
    own = folder / "killed"
    own.mkdir()
    (own / "tasks.jsonl").write_bytes(b"".join(orjson.dumps(task) + b"\n" for task in tasks))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PARENT_DIR), *sys.path])}
    command = [sys.executable, str(PARENT_DIR / KILLED_RUN), str(own), "REFUSE", ""]
    rows = own / "out.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        while not (rows.exists() and rows.stat().st_size) and process.poll() is None:
            time.sleep(0.05)
        with served(rows) as server, visiting(browser) as visit:
            opened(visit, server.address, "#/", "td")
            visit.wait_for("running", "tbody tr")
            visit.go("#/r0/rollouts")
            before = _rows_shown(visit)
            seconds = timed(lambda: _until_more(visit, before))
            report.note(5, "time until a running collection shows more rows", seconds, "s", 2.0)
            process.send_signal(signal.SIGKILL)
            process.wait()
            visit.go("#/")
            seconds = timed(lambda: visit.wait_for("stopped", "tbody tr"))
            report.note(5, "time until a killed run reads `stopped`", seconds, "s")
            visit.go("#/r0/rollouts")
            whole = sum(line.endswith(b"\n") for line in rows.read_bytes().splitlines(keepends=True))
            wait_for_count(visit, whole, whole)
            report.check(5, "rows of the killed run", _rows_shown(visit), whole)


def _rows_shown(visit: Any) -> int:
    visit.page.locator(".count").wait_for()
    return int(visit.text(".count").split(" of ")[1].split()[0].replace(",", ""))


def _until_more(visit: Any, before: int) -> None:
    while _rows_shown(visit) <= before:
        time.sleep(0.02)


def measure_flips(report: Report, browser: Any, folder: Path, tasks: int) -> None:
    """Group 9: two runs with known changes."""
    flips = write_flips(folder, tasks)
    with served(flips.before, flips.after) as server, visiting(browser) as visit:
        opened(visit, server.address, "#/", "tbody tr")
        for name in ("before", "after"):
            visit.page.get_by_role("checkbox", name=f"Choose {name}.jsonl").check()
        visit.page.get_by_role("button", name="Compare before.jsonl with after.jsonl").click()
        seconds = timed(lambda: visit.wait_for("Changed tasks, the largest changes first"))
        report.note(9, f"comparison of two runs of {tasks:,} tasks", seconds, "s")
        address = server.address.split("?")[0]
        before, after = (_run_named(visit, address, name) for name in ("before", "after"))
        answer = visit.page.request.get(f"{address}api/compare?before={before}&after={after}").json()
        changes = [each["difference"] for each in answer["changed"]]
        report.check(9, "tasks that got better", changes.count(1.0), flips.up)
        report.check(9, "tasks that got worse", changes.count(-1.0), flips.down)
        report.check(9, "tasks of one run only", (answer["only_before"], answer["only_after"]),
                     (flips.only_before, flips.only_after))  # fmt: skip
        report.check(9, "mean difference", round(answer["difference"], 12),
                     round((flips.up - flips.down) / (tasks - 2), 12))  # fmt: skip


def _run_named(visit: Any, address: str, name: str) -> str:
    runs = visit.page.request.get(f"{address}api/runs").json()["runs"]
    return str(next(run["id"] for run in runs if run["title"].startswith(name)))


def measure_hostile(report: Report, browser: Any, folder: Path) -> None:
    """Group 7: every payload in every field of a row."""
    path = write_run(
        folder / "hostile.jsonl", [poisoned(each, number) for number, each in enumerate(PAYLOADS)]
    )
    with served(path) as server, visiting(browser) as visit:
        opened(visit, server.address, "#/r0", "h1")
        for number in range(len(PAYLOADS)):
            visit.go(f"#/r0/rollout/{number}/0")
            visit.wait_for(f"Task {number}", "h1")
            visit.page.locator(".transcript").wait_for()
            visit.show_all_items()
        report.note(7, "payloads shown", len(PAYLOADS), "payloads")
        report.check(7, "scripts that ran and requests to other places", visit.problems(), [])


def measure_flags(report: Report, browser: Any, folder: Path, rows: int) -> None:
    """Group 10: a flag finds its rows among many."""
    planted = [row_of(task, 0, [], 1.0) for task in range(3)]
    others = (row_of(task, 0, [message(f"answer {task}")], task % 2) for task in range(3, rows))
    path = write_run(folder / "flags.jsonl", [*planted, *others])
    with served(path) as server, visiting(browser) as visit:
        opened(visit, server.address, "#/r0", "h1")
        visit.go("#/r0/flags")
        seconds = timed(lambda: visit.wait_for("the response has no output", ".findings"))
        report.note(10, f"flags of {rows:,} rows", seconds, "s")
        found = visit.page.locator(".findings").filter(has_text="the response has no output")
        report.check(10, "rows without output", found.first.locator("li").count(), len(planted))


def measure_exports(report: Report, browser: Any, folder: Path, rows: int) -> None:
    """Group 12: a file without a server."""
    table = write_table(folder / "exported.jsonl", rows, text_bytes=900)
    target = folder / "run.html"

    def export() -> None:
        page = export_page(find_runs([table.path]), RowFilter(""), rows)
        target.write_text(page.html, encoding="utf-8")

    report.note(12, f"time to export {rows:,} rows", timed(export), "s")
    report.note(12, f"size of {rows:,} rows", target.stat().st_size / 1e6, "MB")
    with visiting(browser) as visit:
        seconds = opened(visit, target.as_uri(), "#/r0/rollouts", ".grid-rows [role=row]")
        report.note(12, f"first rows of {rows:,} from `file://`", seconds, "s", 1.0)
        lost = sum(row.reward is not None and row.reward < 1 for row in table.facts)
        visit.go("#/r0/rollouts?q=reward<1")
        wait_for_count(visit, lost, rows)
        others = [url for url in visit.requests if not url.startswith((target.as_uri(), "data:"))]
        report.check(12, "requests", others, [])
