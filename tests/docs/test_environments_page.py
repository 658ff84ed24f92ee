from __future__ import annotations

from docs.environments_page import render_page
from nemo_gym import PARENT_DIR


def test_the_gallery_is_the_one_that_the_environments_make() -> None:
    page = (PARENT_DIR / "docs" / "environments.md").read_text(encoding="utf-8")
    assert page == render_page(), "run: python docs/environments_page.py docs/environments.md"


def test_every_environment_is_in_the_gallery() -> None:
    cards = [line for line in render_page().splitlines() if line.startswith("### ")]
    folders = [path.parent.name for path in PARENT_DIR.glob("resources_servers/*/app.py")]
    assert sorted(cards) == sorted(f"### {name}" for name in folders)
