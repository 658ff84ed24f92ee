"""A rollout and its forks stand in different files, and the page shows them as one tree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.browser.conftest import serving
from tests.browser.rows import message, row_of, write_run
from tests.browser.visits import Visit

FORKS = 2


def fork_of(repeat: int, number: int, reward: float) -> dict[str, Any]:
    about = {
        "parent": [0, repeat],
        "attempt": f"0.{repeat}.a0",
        "turn": 1,
        "number": number,
        "group": f"0.{repeat}@1",
    }
    return {**row_of(0, repeat * FORKS + number, [message("x")], reward), "_ng_fork": about}


def test_a_parent_and_its_forks_link_to_each_other(tmp_path: Path, visit: Visit) -> None:
    own = [row_of(0, repeat, [message(f"text {repeat}")], 0.5) for repeat in range(3)]
    parents = write_run(tmp_path / "out.jsonl", own)
    os.utime(parents, (1, 1))  # the newest run is the first
    rows = [fork_of(1, number, float(number)) for number in range(FORKS)]
    forks = write_run(tmp_path / "out_forks.jsonl", rows)
    settings = {"forked": "out.jsonl", "turn": 1, "forks": FORKS}
    forks.with_name("out_forks_run.json").write_text(
        json.dumps({"identity": {"settings": settings}, "starts": []})
    )
    with serving([parents, forks]) as address:
        visit.open(address, "#/r1/rollout/0/1")
        visit.wait_for("2 forks")
        tree = visit.text("section[aria-label=Forks]")
        assert "after call 1" in tree
        assert "fork 0, reward 0" in tree
        visit.page.get_by_role("link", name="fork 1").click()
        visit.wait_for("fork 1, this rollout, reward 1")
        assert "fork 0, reward 0" in visit.text("section[aria-label=Replay]")
        visit.page.get_by_role("link", name="task 0, rollout 1").click()
        visit.wait_for("2 forks")
        visit.go("#/r1/rollout/0/2")
        visit.wait_for("text 2")
        assert visit.page.locator("section[aria-label=Forks]").count() == 0
