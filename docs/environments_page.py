"""The generated gallery of environments.

`python docs/environments_page.py docs/environments.md` updates it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.audit.claims import CARD
from nemo_gym.authoring.catalog import CatalogEntry, read_catalog
from nemo_gym.statistics.distributions import find_rate_interval
from tests.audit.our_cards import UNCLAIMED

_INTRODUCTION = """\
# Environments

This page is made from the environments' own configurations and READMEs by
`python docs/environments_page.py docs/environments.md`. `gym list environments` prints the list, and
`gym eval run NAME` runs the example tasks of one ([quick start](quick_start.md)).

Verification: `answer` reads the answer, `execution` runs code, `state` compares the state that is left behind, `judge`
asks another model, and `steps` adds up the rewards of the environment's own steps ([verification](verification.md)).\
"""
_RATES = """\
## Error rates of the verifiers

The [cards](audit.md) of these environments (`audit.json` in their folders) have no wrong verdict. The bounds are
one-sided, at 95 %, with a trial a task: of all probes of an environment, and of its least probed class. `verified: true`
needs less than 2 % of false accepts and 5 % of false rejects in each class.

| environment | tasks | false accepts below | in each class | false rejects below | in each class | `verified: true` |
|---|---|---|---|---|---|---|\
"""
_ERRORS = ("false accepts", "false rejects")
_REWARD = re.compile(r"^\*\*Reward\*\*:\s*(.+?)(?=\n\n|\n-|\n\|)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def render_page() -> str:
    """Return the text of `docs/environments.md`."""
    entries = sorted(read_catalog(PARENT_DIR, kind="resources_servers"), key=_order)
    parts = [_INTRODUCTION]
    for domain, members in groupby(entries, key=_domain):
        parts += [f"## {domain.replace('_', ' ').capitalize()}", *map(_card, members)]
    return "\n\n".join([*parts, "\n".join([_RATES, *_list_rates(entries)])]) + "\n"


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


def _list_rates(entries: Sequence[CatalogEntry]) -> Iterator[str]:
    """Yield a line of the table for each environment with a card, and one for those with rates together."""
    cards = []
    for entry in sorted(entries, key=lambda entry: entry.implementation.name):
        name, file = entry.implementation.name, entry.implementation.folder / CARD
        if not file.is_file():
            continue
        card = json.loads(file.read_bytes())
        bounds = [bound for error in _ERRORS for bound in _list_bounds(card, error)]
        claim = "yes" if entry.is_verified else f"no: {UNCLAIMED[name]}"
        yield f"| {name} | {card['tasks']} | {' | '.join(bounds)} | {claim} |"
        cards += [card] if card["enough"] else []
    pooled = (_pool(cards, error) for error in _ERRORS)
    tasks = sum(card["tasks"] for card in cards)
    yield f"| all of {len(cards)} | {tasks} | {' | – | '.join(pooled)} | – | |"


def _list_bounds(card: dict[str, Any], error: str) -> tuple[str, str]:
    """Return the bound of a card's error rate, and the highest one of a class."""
    if not card["enough"]:
        return "–", "–"
    classes = [each["upper_95"] for each in card["classes"] if each["error"] == error and each["probes"]]
    return f"{card[error.replace(' ', '_')]['upper_95']:.2%}", f"{max(classes):.2%}"


def _pool(cards: Sequence[dict[str, Any]], error: str) -> str:
    """Return the bound of the error rate of all cards together."""
    rates = [card[error.replace(" ", "_")] for card in cards]
    wrong = sum(rate["rate"] * rate["tasks"] for rate in rates)
    return f"{find_rate_interval(wrong, sum(rate['tasks'] for rate in rates), error=0.1)[1]:.2%}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")
