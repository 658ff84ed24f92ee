"""The list of pages for language models (llmstxt.org): a title and the first sentence of each.

`python docs/llms_page.py docs/llms.txt` updates it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
_SUMMARY = "A gym of HTTP microservices for training and evaluating language-model agents."
_NOT_READ = re.compile(r"^<!--.*?-->$|^```.*?^```$|^#.*?$", re.MULTILINE | re.DOTALL)
"""Comments, code and headings."""
_NO_PROSE = ("|", ">", "-", "*")
_SENTENCE = re.compile(r".+?[.:](?=\s|$)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the sections of the site and their pages."""
    site = tomllib.loads((DOCS.parent / "zensical.toml").read_text(encoding="utf-8"))
    for entry in site["project"]["nav"]:
        for name, pages in entry.items():
            yield name, [pages] if isinstance(pages, str) else pages


def render_page() -> str:
    """Return the text of `docs/llms.txt`."""
    lines = ["# NeMo Gym", "", f"> {_SUMMARY}"]
    for name, pages in sections():
        lines += ["", f"## {name}", *map(_line_of, pages)]
    return "\n".join(lines) + "\n"


def _line_of(page: str) -> str:
    title, _, text = (DOCS / page).read_text(encoding="utf-8").partition("\n")
    blocks = [" ".join(block.split()) for block in _NOT_READ.sub("\n", text).split("\n\n")]
    prose = next(block for block in blocks if block and not block.startswith(_NO_PROSE))
    sentence = _SENTENCE.match(prose)
    words = _LINK.sub(r"\1", sentence[0] if sentence else prose).rstrip(":")
    return f"- [{title.removeprefix('# ')}]({page}): {words}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")
