"""The cards of audits (`card.json`, `audit.json`) as pages of the viewer: `/audits`, without scripts.

    cards = find_cards([Path("results")])
    write_page(cards)

A card is of another program as much as a row is: every text of it is escaped, and a file that is no card is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from nemo_gym.json_objects import member, object_in

NAMES = ("card.json", "audit.json")
ROUTE, STYLE_ROUTE = "/audits", "/audits.css"
_MOST_CARDS = 200
_LARGEST = 16 << 20
STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8884; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.wrong td { font-weight: 600; }
code { white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
"""


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card and its file."""

    file: Path
    card: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.card.get("environment"))


def find_cards(places: Sequence[Path]) -> list[FoundCard]:
    """Return the cards below folders, by the names of their environments."""
    files = (
        file for place in places if place.is_dir() for name in NAMES for file in sorted(place.rglob(name))
    )
    found = (
        FoundCard(file, card) for file in islice(files, _MOST_CARDS) if (card := _read_card(file)) is not None
    )
    return sorted(found, key=lambda each: (each.name, str(each.file)))


def _read_card(file: Path) -> Mapping[str, Any] | None:
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            return None
        card = object_in(file.read_bytes())
    except OSError:
        return None  # it was moved meanwhile
    classes = member(card, "classes")
    is_card = isinstance(classes, list) and all(isinstance(each, dict) for each in classes)
    return card if card is not None and is_card and "environment" in card else None


def write_page(cards: Sequence[FoundCard]) -> str:
    """Return the page of all cards."""
    index = "".join(
        f'<li><a href="#{number}">{escape(each.name)}</a></li>' for number, each in enumerate(cards)
    )
    body = "".join(
        f'<section id="{number}">{_write_card(each)}</section>' for number, each in enumerate(cards)
    )
    body = body or "<p>There is no card below these folders.</p>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Audits</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="stylesheet" href="{STYLE_ROUTE}"></head><body>'
        f'<p><a href="/">Runs</a></p><h1>Audits</h1><ul>{index}</ul>{body}</body></html>'
    )


def _write_card(found: FoundCard) -> str:
    card = found.card
    enough = (
        "" if card.get("enough") else " Rates need 150: the findings are facts, their absence shows nothing."
    )
    head = ("class of probes", "wrong verdict", "wrong", "of", "rate", "95 % interval", "undecided", "failed")
    columns = "".join(
        f'<th class="{"number" if place > 1 else ""}">{each}</th>' for place, each in enumerate(head)
    )
    rows = "".join(_write_class(each) for each in card["classes"])
    examples = "".join(_list_examples(card["classes"]))
    notes = "".join(f"<p>{escape(str(note))}</p>" for note in card.get("notes") or ())
    return (
        f"<h2>{escape(found.name)}</h2><p><code>{escape(str(found.file))}</code>: {escape(str(card.get('tasks')))} "
        f"tasks, seed {escape(str(card.get('seed')))}.{enough}</p>"
        f'<div class="scroll"><table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"<ul>{examples}</ul>{notes}"
    )


def _write_class(entry: Mapping[str, Any]) -> str:
    low, high = (_write_share(each) for each in _read_interval(entry))
    texts = (str(entry.get("class")), str(entry.get("error")))
    numbers = (
        str(entry.get("wrong")), str(entry.get("probes")), _write_share(entry.get("rate")), f"{low} to {high}",
        str(entry.get("undecided")), str(entry.get("failed")),
    )  # fmt: skip
    cells = [f"<td>{escape(text)}</td>" for text in texts]
    cells += [f'<td class="number">{escape(number)}</td>' for number in numbers]
    return f'<tr class="{"wrong" if entry.get("wrong") else ""}">{"".join(cells)}</tr>'


def _read_interval(entry: Mapping[str, Any]) -> tuple[object, object]:
    match entry.get("interval_95"):
        case [low, high]:
            return low, high
    return None, None


def _write_share(value: object) -> str:
    return f"{value:.2%}" if isinstance(value, int | float) else "–"


def _list_examples(classes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for entry in classes:
        for example in (*(entry.get("examples") or ()), *(entry.get("undecided_examples") or ())):
            parts = [str(member(example, key)) for key in ("conclusion", "task", "reward")]
            reason = member(example, "reason")
            words = f"{entry.get('class')}: {parts[0]}, {parts[1]}, reward {parts[2]}" + (
                f": {reason}" if reason else ""
            )
            yield f"<li>{escape(words)} <code>{escape(str(member(example, 'probe') or ''))}</code></li>"
