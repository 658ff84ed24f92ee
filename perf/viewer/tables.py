"""Large tables: first rows, a file without an index, filters, orders, groups, figures, and searches in texts."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean, median
from typing import Any

import zstandard

from nemo_gym.metrics import aggregate as aggregate_rows
from nemo_gym.metrics import compute_expected_max_at_k, reward_interval
from nemo_gym.rollouts.output.index_file import extend_index
from perf.viewer.fixtures import NEEDLE, ROLLOUTS, Fact, Table, write_searched, write_table
from perf.viewer.pages import Report, opened, renderer_mb, served, timed, visiting, wait_for_count
from tests.browser.visits import Visit

ROW = ".grid-rows [role=row]"
OPENINGS = 5
REPEATS = 5
_MOMENT = 1_777_400_000

FILTERS: dict[str, Callable[[Fact], bool]] = {
    "reward<1": lambda row: row.reward is not None and row.reward < 1,
    "agent:swe*": lambda row: row.agent.startswith("swe"),
    "tokens>50k": lambda row: row.tokens > 50_000,
    "seconds<10": lambda row: row.seconds < 10,
    "reward<1 agent:swe* tokens>4k": lambda row: (
        row.reward is not None and row.reward < 1 and row.agent != "math" and row.tokens > 4000
    ),
    "score>0.5 seconds>50 tokens<1k": lambda row: row.score > 0.5 and row.seconds > 50 and row.tokens < 1000,
    "-outcome:completed": lambda row: row.outcome != "completed" or row.reward is None,
    "task:77": lambda row: row.task == 77,
    "calls>=2 reward=1": lambda row: row.calls >= 2 and row.reward == 1,
    "reward:none": lambda row: row.reward is None,
    "score!=0 -agent:math outcome:failed,truncated": lambda row: (
        row.score != 0 and row.agent != "math" and (row.reward is None or row.outcome == "truncated")
    ),
    "at>=2026-04-28T18:13:20": lambda row: row.created_at >= _MOMENT,
}
"""Filters, and the rows that satisfy them."""


def measure_million(report: Report, browser: Any, folder: Path, rows: int) -> None:
    """Groups 1, 2 and 3 of a file with an index."""
    table = write_table(folder / "million.jsonl", rows)
    report.note(1, f"time to make the index of {rows:,} rows", _indexed(table), "s")
    report.time(
        1, f"first of {rows:,} rows", [_first_paint(browser, table.path) for _ in range(OPENINGS)], 1.0
    )
    with served(table.path) as server, visiting(browser) as visit:
        opened(visit, server.address, "#/r0", "h1")
        empty = renderer_mb()
        _check_overview(report, visit, table.facts)
        _measure_filters(report, visit, table.facts)
        _measure_orders(report, visit, table.facts)
        _measure_groups(report, visit, table.facts)
        report.note(2, "memory of the page's process", renderer_mb(), "MB")
        report.note(2, "memory of the page's process when the page opened", empty, "MB")
        report.note(2, "memory of the server", server.memory_mb, "MB", 150)
        heap = visit.page.context.new_cdp_session(visit.page).send("Runtime.getHeapUsage")
        report.note(2, "heap of the page, without its worker", heap["usedSize"] / 1e6, "MB", 150)


def measure_big(report: Report, browser: Any, folder: Path, size: int) -> None:
    """Group 1 of a large file without an index."""
    rows = max(200, size // 40_000)
    table = write_table(folder / "big.jsonl", rows, text_bytes=39_300)
    name = f"{table.path.stat().st_size / 1e9:.2f} GB without an index"
    with served(table.path) as server, visiting(browser) as visit:
        report.note(1, f"first rows of {name}", opened(visit, server.address, "#/r0/rollouts", ROW), "s", 1.0)
        report.note(1, f"all rows of {name}", timed(lambda: wait_for_count(visit, rows, rows)), "s")
        report.note(1, f"memory of the server after {name}", server.memory_mb, "MB", 150)
        _check_overview(report, visit, table.facts)


def measure_searches(report: Report, browser: Any, folder: Path, rows: int) -> None:
    """Group 4."""
    plain, hits = write_searched(folder / "searched.jsonl", rows)
    megabytes = plain.stat().st_size / 1e6
    for path in (plain, *_packed(plain)):
        with served(path) as server, visiting(browser) as visit:
            opened(visit, server.address, "#/r0/rollouts", ROW)
            wait_for_count(visit, rows, rows)
            visit.go(f'#/r0/rollouts?q="{NEEDLE}"')
            seconds = timed(partial(wait_for_count, visit, hits, rows))
            report.note(4, f"search in {megabytes:,.0f} MB of {path.name}", seconds, "s")
            report.check(4, f"hits in {path.name}", _count(visit), (hits, rows))


def _packed(plain: Path) -> Iterable[Path]:
    zipped, packed = (plain.with_name(f"packed.jsonl{ending}") for ending in (".gz", ".zst"))
    with plain.open("rb") as content, gzip.open(zipped, "wb", compresslevel=1) as file:
        shutil.copyfileobj(content, file, 1 << 20)
    with plain.open("rb") as content, packed.open("wb") as file:
        zstandard.ZstdCompressor(1).copy_stream(content, file)
    return zipped, packed


def _indexed(table: Table) -> float:
    return timed(lambda: extend_index(table.path, table.path.with_name(f"{table.path.stem}_index")))


def _first_paint(browser: Any, path: Path) -> float:
    with served(path) as server, visiting(browser) as visit:
        return opened(visit, server.address, "#/r0/rollouts", ROW)


def _measure_filters(report: Report, visit: Visit, facts: list[Fact]) -> None:
    for query, holds in FILTERS.items():
        expected = sum(map(holds, facts))
        times = []
        for _ in range(REPEATS):
            visit.go("#/r0/rollouts?q=task<0")
            wait_for_count(visit, 0, len(facts))
            visit.go(f"#/r0/rollouts?q={query}")
            wait_for_count(visit, expected, len(facts))
            times.append(_took(visit))
        report.note(2, f"filter {query}", median(times), "ms", 100)
        report.check(2, f"rows of {query}", _count(visit), (expected, len(facts)))
    report.check(2, "at most 100 rows in the DOM", visit.page.locator(ROW).count() <= 100, True)


def _measure_orders(report: Report, visit: Visit, facts: list[Fact]) -> None:
    for column, values in (
        ("seconds", [row.seconds for row in facts]),
        ("total_tokens", [float(row.tokens) for row in facts]),
    ):
        visit.go("#/r0/rollouts?q=agent:math")
        wait_for_count(visit, sum(row.agent == "math" for row in facts), len(facts))
        visit.go(f"#/r0/rollouts?sort={column}")
        wait_for_count(visit, len(facts), len(facts))
        report.note(2, f"first order by {column}", _took(visit), "ms", 100)
        first = sorted(range(len(facts)), key=values.__getitem__)[:10]
        expected = [(facts[at].task, facts[at].rollout) for at in first]
        visit.page.locator(f"{ROW} >> nth=10").wait_for()
        shown = [_numbers(visit.page.locator(ROW).nth(at).inner_text())[:2] for at in range(10)]
        report.check(2, f"first rows by {column}", shown, expected)


def _measure_groups(report: Report, visit: Visit, facts: list[Fact]) -> None:
    """Groups in the page's order by mean reward, with best@k, against the estimators."""
    tasks = facts[-1].task + 1
    visit.go("#/r0/rollouts?group=task&sort=-mean")
    seconds = timed(lambda: visit.wait_for(f"in {tasks:,} tasks", ".count"))
    report.note(3, f"{tasks:,} groups, ordered by mean reward, in the page", seconds, "s")
    groups = [(task, [row.reward for row in own]) for task, own in groupby(facts, lambda row: row.task)]
    expected = []
    for task, rewards in groups:
        scores = [reward for reward in rewards if reward is not None]
        best = f"{compute_expected_max_at_k(scores, ROLLOUTS):.3f}" if len(scores) == ROLLOUTS else "–"
        expected.append((task, fmean(scores) if scores else None, len(scores), best))
    expected.sort(key=lambda group: -2.0 if group[1] is None else -group[1])
    lines = [visit.page.locator(ROW).nth(at).inner_text().split("\n") for at in range(10)]
    shown = [(int(line[0].replace(",", "")), line[1], int(line[4]), line[2]) for line in lines]
    wanted = [(task, f"{mean:.3f}", scored, best) for task, mean, scored, best in expected[:10]]
    report.check(3, "groups with mean and best@k", shown, wanted)


def _check_overview(report: Report, visit: Visit, facts: list[Fact]) -> None:
    """Compare the overview with the aggregate metrics."""
    visit.go("#/r0")
    seconds = timed(lambda: visit.wait_for(f"{len(facts):,}", ".figures dd"))
    report.note(3, f"overview of {len(facts):,} rollouts, from the address to the figures", seconds, "s")
    for agent in sorted({row.agent for row in facts}):
        own = [row for row in facts if row.agent == agent]
        metrics = aggregate_rows([_row_of(row) for row in own])["agent_metrics"]
        interval = reward_interval(metrics)
        assert interval is not None
        shown = visit.page.locator("tr").filter(has_text=agent).first.inner_text().split("\t")
        tasks, scored = metrics["count/tasks"], metrics["count/scored"]
        wanted = [agent, f"{metrics['mean/reward']:.3f}", f"{interval.low:.3f} to {interval.high:.3f}"]
        wanted += [
            f"{metrics['pass@1/reward'] / 100:.3f}",  # a best reward: some are neither 0 nor 1
            f"{tasks:,}",
            f"{scored:,}",
            f"{len(own) - scored:,}",
        ]
        figures = [
            figure.rstrip("*") for figure in (*shown[:4], *shown[-3:])
        ]  # the mark of tasks with fewer scores
        report.check(3, f"overview of {len(own):,} rollouts of {agent}", figures, wanted)


def _row_of(fact: Fact) -> dict[str, Any]:
    failed = {"_ng_failure_class": "judge_failed"} if fact.reward is None else {}
    named = {"_ng_task_index": fact.task, "_ng_rollout_index": fact.rollout, "_ng_outcome": fact.outcome}
    return {**named, **failed, "reward": fact.reward or 0.0}


def _count(visit: Visit) -> tuple[int, int]:
    shown, total = _numbers(visit.text(".count"))[:2]
    return shown, total


def _took(visit: Visit) -> float:
    found = re.search(r"\((\d+) ms\)", visit.text(".count"))
    assert found is not None
    return float(found[1])


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text))
