from __future__ import annotations

from docs.llms_page import DOCS, render_page, sections


def test_the_list_of_pages_is_the_one_that_the_site_makes() -> None:
    page = (DOCS / "llms.txt").read_text(encoding="utf-8")
    assert page == render_page(), "run: python docs/llms_page.py docs/llms.txt"


def test_every_page_is_in_the_site_once_and_has_a_sentence() -> None:
    pages = [page for _, pages in sections() for page in pages]
    assert sorted(pages) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert [line for line in render_page().splitlines() if line.endswith(": ")] == []
