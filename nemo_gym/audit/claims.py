"""The claim `verified: true` of an environment, and the card that supports it: `audit.json` in its folder.

A claim is supported by a card of 150 tasks or more, with these upper bounds (one-sided, 95 %) in each class of probes:
2 % of false accepts, 5 % of false rejects, no flip. An environment of this repository that claims without a card is
refused; another one is warned of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym.config.problems import Problems
from nemo_gym.json_objects import object_in

if TYPE_CHECKING:
    from nemo_gym.config.servers import ServerInstance

CARD = "audit.json"
MOST_FALSE_ACCEPTS, MOST_FALSE_REJECTS = 0.02, 0.05
_BOUNDS = {"false accepts": MOST_FALSE_ACCEPTS, "false rejects": MOST_FALSE_REJECTS}
_REMEDY = (
    "Copy the card.json of `gym audit {name}` with 150 tasks or more to {card}, or write `verified: false`."
)


def check_claims(servers: Iterable[ServerInstance], own: Path, problems: Problems) -> None:
    """Report each server that claims `verified: true` without a card that supports it. `own`: our environments."""
    for server in servers:
        if server.config.get("verified") is not True:
            continue
        card = server.directory / CARD
        faults = list(find_faults(card))
        if not faults:
            continue
        message = f"{server.name} claims `verified: true`: {'; '.join(faults)}."
        remedy = _REMEDY.format(name=server.implementation, card=card)
        if server.directory.parent == own:
            problems.add(server.where, message, remedy)
        else:
            problems.warn(f"{message} {remedy}")


def find_faults(card: Path) -> Iterator[str]:
    """Yield the reasons why a card supports no claim; none if it does."""
    try:
        read = object_in(card.read_bytes())
    except OSError:
        yield f"it has no card {card.name}"
        return
    if read is None or not isinstance(read.get("classes"), list):
        yield f"{card.name} is not a card"
        return
    if not read.get("enough"):
        yield f"its card has {read.get('tasks')} tasks, and rates need 150"
        return
    for entry in read["classes"]:
        yield from _find_fault(entry)
    if not any(entry["error"] == "false rejects" and entry["probes"] for entry in read["classes"]):
        yield "its card has no right attempt"


def _find_fault(entry: Mapping[str, Any]) -> Iterator[str]:
    most = _BOUNDS.get(entry["error"])
    if most is None:
        if entry["wrong"]:
            yield f"{entry['wrong']} {entry['error']} in the class {entry['class']!r}"
    elif entry["upper_95"] >= most:
        yield f"{entry['error']} in the class {entry['class']!r} may reach {entry['upper_95']:.1%}, above {most:.0%}"
