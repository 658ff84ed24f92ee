"""The budget of one attempt, and what its model calls have spent, on their way through the servers of a gym.

A request with the header `x-ng-budget` has a `BudgetLedger`. Calls that its handler makes carry what is left of it, and
their answers carry what they have spent in `x-ng-spent`, so the ledger of the agent sees every call of its attempt:
those of the policy, of judges and of simulated users, of any server. A model server refuses a call of an attempt that
has nothing left. A call that is in flight when the budget ends is answered and counted.

A call of a continued attempt that is answered from the record of an earlier one is counted apart, as that of a server
whose name begins with `REPLAYED`: the engine was asked for it once.

Nothing of this is imported by a gym whose runs have no budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from nemo_gym.clock import rollout_time
from nemo_gym.failures import EngineError, InputError
from nemo_gym.json_objects import object_in
from nemo_gym.transport.context import BUDGET_HEADER, BUDGET_SPENT, SPENT_HEADER

_MILLION = 1e6
REPLAYED = "~"
"""The first character of the name under which the replayed calls of a model server are counted."""


class Price(NamedTuple):
    """The price of a million tokens."""

    input: float
    cached: float
    output: float


class Tokens(NamedTuple):
    """The tokens of calls of one model server."""

    calls: int = 0
    input: int = 0
    """Those of prompts, with the cached ones."""
    cached: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def plus(self, other: Iterable[int]) -> Tokens:
        return Tokens(*(one + two for one, two in zip(self, other, strict=True)))

    def minus(self, other: Iterable[int]) -> Tokens:
        """Return what is more than in `other`."""
        return Tokens(*(max(0, one - two) for one, two in zip(self, other, strict=True)))

    def cost(self, price: Price) -> float:
        uncached = self.input - self.cached
        return (uncached * price.input + self.cached * price.cached + self.output * price.output) / _MILLION


Spent = dict[str, Tokens]
"""Model server → its tokens."""


@dataclass(slots=True)
class BudgetLedger:
    """The budget that an attempt has left, and its spending. None is no limit."""

    tokens: int | None = None
    cost: float | None = None
    until: float | None = None
    """The time on the clock of rollouts after which no call starts."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Model server → its price; needed for a limit of the cost."""
    spent: Spent = field(default_factory=dict)

    @classmethod
    def from_header(cls, value: bytes | str) -> BudgetLedger:
        """Return the ledger of a request. Raises `InputError` for a header of another form."""
        told = object_in(value)
        try:
            assert told is not None
            seconds = told.get("seconds")
            return cls(
                None if told.get("tokens") is None else int(told["tokens"]),
                None if told.get("cost") is None else float(told["cost"]),
                None if seconds is None else rollout_time() + float(seconds),
                {name: Price(*price) for name, price in (told.get("prices") or {}).items()},
            )
        except (AssertionError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{BUDGET_HEADER} is not a budget", code="invalid_budget", param=BUDGET_HEADER
            ) from error

    def to_header(self) -> str:
        """Return what is left, for the calls that follow."""
        left: dict[str, Any] = {}
        if self.tokens is not None:
            left["tokens"] = self.tokens - sum(each.total for each in self.spent.values())
        if self.cost is not None:
            left["cost"] = self.cost - self.compute_cost()
            left["prices"] = self.prices
        if self.until is not None:
            left["seconds"] = self.until - rollout_time()
        return orjson.dumps(left, default=list).decode()

    def compute_cost(self) -> float:
        """Return the cost of what was spent."""
        return compute_cost(self.spent, self.prices)

    def lift(self) -> None:
        """Remove the limits: what follows is counted and never refused, as the calls of judges are."""
        self.tokens = self.cost = self.until = None

    def find_exhausted(self) -> str | None:
        """Return the limit that is reached: `tokens`, `cost` or `seconds`; None without one."""
        if self.tokens is not None and sum(each.total for each in self.spent.values()) >= self.tokens:
            return "tokens"
        if self.cost is not None and self.compute_cost() >= self.cost:
            return "cost"
        return "seconds" if self.until is not None and rollout_time() >= self.until else None

    def require_left(self, server: str) -> None:
        """Raise `EngineError` if nothing is left for a call of the model server `server`."""
        limit = self.find_exhausted()
        if limit is not None:
            raise EngineError(
                f"the {limit} of the rollout's budget are spent"
                if limit != "cost"
                else "the rollout's budget is spent",
                code=BUDGET_SPENT,
                status=402,
                peer=server,
                remedy=f"Raise +budget.rollout.{limit} if rollouts need more.",
            )

    def note(self, server: str, tokens: Tokens, *, is_replayed: bool = False) -> None:
        """Add calls of a model server."""
        server = REPLAYED + server if is_replayed else server
        self.spent[server] = self.spent.get(server, Tokens()).plus(tokens)

    def note_headers(self, headers: Mapping[str, str]) -> None:
        """Add what the headers of an answer say."""
        if SPENT_HEADER in headers:
            for server, tokens in read_spent(headers[SPENT_HEADER]).items():
                self.note(server, tokens)

    def write_spent(self) -> bytes:
        """Return what was spent, as `x-ng-spent` has it."""
        return write_spent(self.spent)


def write_spent(spent: Spent) -> bytes:
    """Return what was spent as JSON: by model server, its calls, input, cached and output tokens."""
    return orjson.dumps(spent, default=list)


def read_spent(value: object) -> Spent:
    """Return what a header, or a member of a row, says; empty for another form."""
    told = object_in(value) if isinstance(value, str | bytes) else value
    try:
        return {name: Tokens._make(map(int, counts)) for name, counts in (told or {}).items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return {}


def compute_cost(spent: Mapping[str, Tokens], prices: Mapping[str, Price]) -> float:
    """Return the cost of tokens by model server; a server without a price costs nothing."""
    named = ((name.removeprefix(REPLAYED), tokens) for name, tokens in spent.items())
    return sum(tokens.cost(prices[name]) for name, tokens in named if name in prices)


def split_replayed(spent: Spent) -> tuple[Spent, Spent]:
    """Return the calls that the engine was asked for, and those that were answered from a record."""
    live = {name: tokens for name, tokens in spent.items() if not name.startswith(REPLAYED)}
    replayed = {name.removeprefix(REPLAYED): spent[name] for name in spent.keys() - live.keys()}
    return live, replayed


def add_spent(one: Mapping[str, Tokens], other: Mapping[str, Tokens]) -> Spent:
    """Return the sum of two expenses."""
    return {name: one.get(name, Tokens()).plus(other.get(name, Tokens())) for name in {**one, **other}}
