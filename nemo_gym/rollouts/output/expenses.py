"""The expenses of a run as its manifest has them (`spent` of a start), and as lines and table rows for a person.

Runs with budgets or prices have them. Those of a start are of all starts up to it, failed attempts included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from nemo_gym.json_objects import finite_number, member


class Expense(NamedTuple):
    """Tokens, cost and seconds of a part of a run."""

    kind: str
    """`run`, `policy`, `judge`, `user`, `environment` or `agent`."""
    name: str
    calls: int
    input: int
    cached: int
    output: int
    cost: float | None
    """None without a price."""
    seconds: float | None
    """The seconds of attempts; None for a model server, of which they are not known."""

    @property
    def tokens(self) -> int:
        """Return the tokens of prompts and answers."""
        return self.input + self.output


def read_expenses(starts: object) -> Mapping[str, Any] | None:
    """Return the expenses of a run by the starts of its manifest; None if no start has told any."""
    told = [member(start, "spent") for start in starts] if isinstance(starts, Sequence) else []
    found = next((each for each in reversed(told) if each), None)
    return found if isinstance(found, Mapping) else None


def list_expenses(spent: Mapping[str, Any]) -> Iterator[Expense]:
    """Yield the expenses of the run, of its models, of its environments and of its agents.

    Members of another form are left out: other programs may have written the manifest.
    """
    models = _list_objects(spent.get("models"))
    has_prices = any(each.get("cost") is not None for each in models)
    yield _sum_up("run", "", models, finite_number(spent.get("cost")) if has_prices else None, spent)
    for each in models:
        name = f"{each.get('model')} (`{each.get('server')}`)"
        yield _sum_up(str(each.get("role")), name, [each], finite_number(each.get("cost")))
    for kind in ("environment", "agent"):
        parts = spent.get(f"{kind}s")
        for name, part in parts.items() if isinstance(parts, Mapping) else ():
            servers = member(part, "servers")
            listed = _list_objects([*servers.values()] if isinstance(servers, Mapping) else ())
            cost = finite_number(member(part, "cost")) if has_prices else None
            yield _sum_up(kind, str(name), listed, cost, part)


def _sum_up(
    kind: str, name: str, servers: Sequence[Mapping[str, Any]], cost: float | None, part: object = None
) -> Expense:
    calls, given, cached, answered = (
        sum(_count(each.get(key)) for each in servers) for key in ("calls", "input", "cached", "output")
    )
    return Expense(kind, name, calls, given, cached, answered, cost, finite_number(member(part, "seconds")))


def _list_objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, Sequence) else []


def _count(value: object) -> int:
    return value if type(value) is int else 0


def describe_expenses(spent: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a run has spent in all of its starts, by model, and by environment and agent if there are several."""
    whole, *parts = list_expenses(spent)
    yield f"spent: {_describe_total(whole)}"
    kinds = Counter(part.kind for part in parts)
    for part in parts:
        is_part = part.seconds is not None
        if not is_part:
            yield f"  {part.kind} {part.name}: {_describe_calls(part)}"
        elif kinds[part.kind] > 1:
            yield f"  {part.kind} {part.name}: {_describe_total(part)}"


def _describe_total(part: Expense) -> str:
    return f"{part.tokens:,} tokens{_write_cost(part)}, in {write_seconds(part.seconds or 0.0)} of attempts"


def _describe_calls(part: Expense) -> str:
    return (
        f"{part.calls:,} calls, {part.input:,} input ({part.cached:,} cached) and {part.output:,} output tokens"
        f"{_write_cost(part)}"
    )


def _write_cost(part: Expense) -> str:
    return "" if part.cost is None else f", cost {part.cost:,.4f}"


def write_seconds(seconds: float) -> str:
    """Return `1:02:03` for hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))
