"""The generated gallery of environments.

`python docs/environments_page.py docs/environments.md` updates it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from nemo_gym import PARENT_DIR
from nemo_gym.authoring.catalog import CatalogEntry, read_catalog

_INTRODUCTION = """\
# Environments

This page is made from the environments' own configurations and READMEs by
`python docs/environments_page.py docs/environments.md`. `gym list environments` prints the list, and
`gym eval run NAME` runs the example tasks of one ([quick start](quick_start.md)).

Verification: `answer` reads the answer, `execution` runs code, `state` compares the state that is left behind, `judge`
asks another model, and `steps` adds up the rewards of the environment's own steps ([verification](verification.md)).\
"""
_REWARD = re.compile(r"^\*\*Reward\*\*:\s*(.+?)(?=\n\n|\n-|\n\|)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def render_page() -> str:
    """Return the text of `docs/environments.md`."""
    entries = sorted(read_catalog(PARENT_DIR, kind="resources_servers"), key=_order)
    parts = [_INTRODUCTION]
    for domain, members in groupby(entries, key=_domain):
        parts += [f"## {domain.replace('_', ' ').capitalize()}", *map(_card, members)]
    return "\n\n".join(parts) + "\n"


def _domain(entry: CatalogEntry) -> str:
    return entry.domain or "other"


def _order(entry: CatalogEntry) -> tuple[bool, str, str]:
    return _domain(entry) == "other", _domain(entry), entry.implementation.name


def _card(entry: CatalogEntry) -> str:
    return "\n".join([f"### {entry.implementation.name}", f"{entry.description}.", "", *_facts(entry)])


def _facts(entry: CatalogEntry) -> Iterator[str]:
    readme = (entry.implementation.folder / "README.md").read_text(encoding="utf-8")
    found = _REWARD.search(readme)
    if found:
        reward = " ".join(_LINK.sub(r"\1", found[1]).split())
        yield f"- Reward: {reward.rstrip(':.')}."
    yield f"- Verification: {', '.join(entry.verification)}"
    yield f"- Example tasks: {entry.example_tasks}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")
