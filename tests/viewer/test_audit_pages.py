"""Cards of audits as pages: found below folders, escaped, and served behind the viewer's token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.viewer.audit_pages import find_cards, write_page
from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.server import Viewer, make_app
from tests.viewer.browsing import browsing

EXAMPLE = {
    "conclusion": "false accept",
    "task": "task 0",
    "reward": 1.0,
    "probe": "<script>alert(1)</script>",
}


def write_card(folder: Path, name: str = "mine", **members: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entry = {
        "class": "one more", "error": "false accepts", "wrong": 1, "probes": 8, "rate": 0.125,
        "interval_95": [0.0, 0.5], "undecided": 0, "failed": 0, "examples": [EXAMPLE],
    }  # fmt: skip
    card = {
        "environment": name,
        "tasks": 8,
        "seed": 0,
        "enough": False,
        "classes": [entry],
        "notes": ["A & B"],
    }
    (folder / "card.json").write_text(json.dumps(card | members))


def test_a_page_has_every_card_and_runs_nothing_of_it(tmp_path: Path) -> None:
    write_card(tmp_path / "b", "beta")
    write_card(tmp_path / "a", "<b>alpha</b>")
    (tmp_path / "card.json").write_text("[1]")
    (tmp_path / "audit.json").write_text('{"environment": "x", "classes": [3]}')
    cards = find_cards([tmp_path])
    assert [card.name for card in cards] == ["<b>alpha</b>", "beta"]
    page = write_page(cards)
    assert "<script>" not in page
    assert "&lt;b&gt;alpha" in page
    assert "12.50%" in page
    assert "0.00% to 50.00%" in page
    assert "Rates need 150" in page
    assert "A &amp; B" in page


def test_a_card_with_missing_members_is_shown(tmp_path: Path) -> None:
    write_card(tmp_path, classes=[{"class": "x"}], notes=None, tasks=None)
    assert "None" in write_page(find_cards([tmp_path]))


async def test_the_viewer_serves_cards_of_a_folder_without_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run"):
        find_runs([tmp_path])
    write_card(tmp_path / "mcqa")
    assert find_runs([tmp_path]) == []
    viewer = Viewer([], places=[tmp_path])
    async with browsing(make_app(viewer)) as browser:
        page, style = await browser.get("/audits"), await browser.get("/audits.css")
    await viewer.close()
    assert page.headers["content-type"].startswith("text/html")
    assert b"mine" in page.body
    assert b"table" in style.body
