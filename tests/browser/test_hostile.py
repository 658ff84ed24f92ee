"""Nothing in a row runs as a script or loads anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import serving
from tests.browser.hostile import PAYLOADS, poisoned
from tests.browser.rows import FAILED_AT, write_nodes, write_run
from tests.browser.visits import Visit

PLACES = [
    "#/",
    "#/r0",
    "#/r0/rollouts",
    "#/r0/rollouts?kind=failures",
    "#/r0/failures",
    "#/r0/flags",
    "#/r0/config",
    *("#/r0/nodes", "#/r0/nodes?server=__proto__", "#/r0/nodes?log=node_0.log"),
]
NODE_PARTS = ("nodes", "replicas", "events")
TABS = ["raw", "tokens", "timing", "json"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [poisoned(payload, number) for number, payload in enumerate(PAYLOADS)]
    failures = []
    for row, payload in zip(rows, PAYLOADS, strict=True):
        detail = dict.fromkeys(("message", "remedy", "peer", "boundary"), payload)
        failure = {**row, "_ng_failure_class": payload, "_ng_failure": detail, "_ng_outcome": "failed"}
        failures.append({name: value for name, value in failure.items() if name != "reward"})
    run = write_run(tmp_path_factory.mktemp("hostile") / "<img src=x onerror=alert(1)>.jsonl", rows, failures)
    write_nodes(run, {name: [poisoned_part(name, payload) for payload in PAYLOADS] for name in NODE_PARTS})
    return run


def poisoned_part(name: str, payload: str) -> dict[str, Any]:
    """A machine, replica or event of a file of nodes, with a payload in every text."""
    texts = dict.fromkeys(("name", "address", "state", "server", "node", "kind", "text"), payload)
    replicas = {payload: 2} if name == "nodes" else [[payload, 0]]
    return {**texts, "log": "node_0.log", "at": FAILED_AT, "replicas": replicas}


def test_there_are_forty() -> None:
    assert len(set(PAYLOADS)) == 40


def check_links(visit: Visit) -> None:
    """Assert that links lead to pages of the viewer, and that images are part of the page."""
    hrefs = visit.page.eval_on_selector_all("[href]", "(all) => all.map((one) => one.getAttribute('href'))")
    assert [href for href in hrefs if not href.startswith(("#", "./assets/", "data:,"))] == []
    sources = visit.page.eval_on_selector_all(
        "main [src]", "(all) => all.map((one) => one.getAttribute('src'))"
    )
    assert [source for source in sources if not source.startswith("data:image/png;base64,")] == []
    assert (
        visit.page.locator(
            "main script, main iframe, main object, main embed, main form, main svg script"
        ).count()
        == 0
    )


def test_no_payload_runs_or_loads(run: Path, visit: Visit) -> None:
    with serving([run.parent]) as address:
        visit.open(address)
        for place in PLACES:
            visit.go(place)
            visit.page.wait_for_timeout(400)  # for anything that would load
            check_links(visit)
            if place == "#/r0/nodes":
                assert visit.page.locator(".events li").count() == len(PAYLOADS)
        for number in range(len(PAYLOADS)):
            visit.go(f"#/r0/rollout/{number}/0")
            visit.wait_for(f"Task {number}", "h1")
            visit.page.locator(".transcript").wait_for()
            visit.show_all_items()
            check_links(visit)
        for tab in TABS:
            visit.go(f"#/r0/rollout/0/0?tab={tab}")
            visit.page.wait_for_timeout(300)
            check_links(visit)
        for number in (0, 1, 21):
            visit.go(f"#/r0/task/{number}")
            visit.page.locator(".attempts").wait_for()
            check_links(visit)
        assert visit.problems() == []
        visit.page.goto("about:blank")


def test_a_filter_from_a_link_is_text(run: Path, visit: Visit) -> None:
    with serving([run.parent]) as address:
        visit.open(address, "#/r0/rollouts?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&sort=%3Cscript%3E")
        visit.page.locator("#filter").wait_for()
        assert visit.page.locator("#filter").input_value() == "<img src=x onerror=alert(1)>"
        assert visit.problems() == []
