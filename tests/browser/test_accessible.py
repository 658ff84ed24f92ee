"""axe-core finds nothing, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.serving.panel import BoardField, Panel, TableField, TextField
from nemo_gym.viewer.exporting import export_page
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.finding import find_runs
from tests.browser.conftest import serving
from tests.browser.rows import ITEMS, failure_of, message, row_of, sampled, write_log, write_nodes, write_run
from tests.browser.visits import Visit

AXE = PARENT_DIR / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = [
    *(
        "#/",
        "#/r0",
        "#/r0/rollouts",
        "#/r0/rollouts?q=reward<1 foo>2",
        "#/r0/rollouts?group=task",
        "#/r0/task/0",
    ),
    *(
        "#/r0/rollout/0/0",
        "#/r0/rollout/0/0?tab=raw",
        "#/r0/rollout/0/0?tab=timing",
        "#/r0/rollout/0/0?tab=json",
    ),
    *("#/r0/nodes", "#/r0/nodes?server=policy&log=node_node2.log"),
    *("#/r0/rollout/1/0?tab=tokens", "#/r0/failures", "#/r0/flags", "#/r0/config", "#/compare/r0/r1"),
]
TEXT = "# Title\n\n> quote\n\n- a\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`code` [x](https://example.com)"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    logprobs = [-0.01, -0.3, -1.0, -2.0, -5.0, -9.0]
    tokens = [sampled("x", [1, 2], [3, 4, 5, 6, 7, 8], logprobs)]
    fields = [TableField(columns=["a"], rows=[["b"]]), BoardField(rows=[["A", "K"]])]
    panel = Panel(title="The hand", fields=[*fields, TextField(kind="diff", text="-a\n+b")]).model_dump()
    rows = [
        row_of(0, 0, [*ITEMS, message(TEXT)], panel=panel),
        row_of(0, 1, [message("no")], 0.0),
        row_of(1, 0, tokens),
    ]
    for name, shown in (("one", rows), ("two", [row_of(0, 0, [message("x")], 0.5), *rows[1:]])):
        write_run(
            folder / f"{name}.jsonl", shown, [failure_of(3, 0, message="late", remedy="Wait.", peer="policy")]
        )
        write_nodes(folder / f"{name}.jsonl")
        write_log(folder / f"{name}.jsonl", "policy", "ERROR late")
    return folder


def found_by_axe(visit: Visit, links: list[str]) -> str:
    """Return what axe-core has to say about the pages, a line each."""
    found: list[str] = []
    for link in links:
        visit.go(link)
        visit.page.locator("main").get_by_text("Reading…").first.wait_for(state="detached")
        visit.page.wait_for_timeout(300)
        visit.page.add_script_tag(path=str(AXE))
        violations = visit.page.evaluate("axe.run().then((result) => result.violations)")
        found += [
            f"{link} {each['id']}: {node['html'][:200]}" for each in violations for node in each["nodes"][:3]
        ]
    return "\n".join(found)


@pytest.fixture(params=["light", "dark"])
def visit(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    context = chromium.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme=request.param, bypass_csp=True
    )
    yield Visit(context)
    context.close()


def test_axe_finds_nothing_in_served_runs(visit: Visit, runs: Path) -> None:
    with serving([runs]) as address:
        visit.open(address)
        assert found_by_axe(visit, PAGES) == ""


def test_axe_finds_nothing_in_an_exported_file(visit: Visit, runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.html"
    target.write_text(export_page(find_runs([runs]), RowFilter("")).html, encoding="utf-8")
    visit.open(target.as_uri())
    visit.page.locator(".embedded-note").wait_for()
    assert found_by_axe(visit, PAGES) == ""
