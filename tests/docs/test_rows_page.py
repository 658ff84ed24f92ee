from __future__ import annotations

from docs.rows_page import render_page
from nemo_gym import PARENT_DIR


def test_the_page_is_the_one_that_the_table_makes() -> None:
    page = (PARENT_DIR / "docs" / "rows.md").read_text(encoding="utf-8")
    assert page == render_page(), "run: python docs/rows_page.py docs/rows.md"
