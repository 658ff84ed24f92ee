"""The budgets of a run: what its rollouts spend, by model server, and the limits of a rollout, a task and the run.

Each attempt gets a ledger (`nemo_gym.transport.budget`) with what is left for its rollout, and its answer tells what it
has spent, also if it has failed. An answer that is lost tells nothing; its tokens are not counted. A rollout is cut off
by its agent. A task or a run whose budget is spent starts no further rollout, and those in flight finish: the overshoot
is at most what they spend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.clock import rollout_time
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult
from nemo_gym.rollouts.run.options import Amounts, BudgetOptions
from nemo_gym.rollouts.run.prices import PricedServer
from nemo_gym.rollouts.run.stopping import BUDGET, StopReason
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_in
from nemo_gym.rows.parts import append_spent, read_agent_or_unknown
from nemo_gym.rows.parts import read_spent as read_spent_member
from nemo_gym.rows.timing import read_seconds
from nemo_gym.transport.budget import Price, Spent, Tokens, compute_cost, read_spent, write_spent
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.context import BUDGET_HEADER, SPENT_HEADER


@dataclass(slots=True)
class Account:
    """The spending of a rollout, a task, an agent or the run."""

    servers: Spent = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, spent: Mapping[str, Tokens], seconds: float) -> None:
        for name, tokens in spent.items():
            self.servers[name] = self.servers.get(name, Tokens()).plus(tokens)
        self.seconds += seconds

    def measure(self, prices: Mapping[str, Price]) -> dict[str, float]:
        """Return the amounts by the names of limits."""
        tokens = sum(each.total for each in self.servers.values())
        return {"tokens": tokens, "cost": compute_cost(self.servers, prices), "seconds": self.seconds}


class Budgets:
    """Counts what a run spends, and limits it."""

    def __init__(
        self, options: BudgetOptions, servers: Iterable[PricedServer], on_spent: Callable[[StopReason], None]
    ) -> None:
        """`on_spent` is called once, when the budget of the run is spent."""
        self._limits = options.budget
        self.servers = {each.name: each for each in servers}
        self.prices = {name: each.price for name, each in self.servers.items() if each.price is not None}
        self.run = Account()
        self.agents: dict[str, Account] = {}
        self._tasks: dict[int, Account] = {}
        self._rollouts: dict[RolloutId, Account] = {}
        """Those of rollouts that are not settled."""
        self._on_spent = on_spent
        self._not_started: dict[int, int] = {}
        """Task → its rollouts that were not started."""

    # --- Attempts -----------------------------------------------------------------------------------------------

    def build_headers(self, task: PlannedAttempt) -> dict[str, str]:
        """Return the header with what is left for an attempt."""
        limits, spent = self._limits.rollout.limits, self._rollouts.get(task.identity, Account())
        measured = spent.measure(self.prices)
        left: dict[str, Any] = {name: limit - measured[name] for name, limit in limits.items()}
        if "cost" in left:
            left["prices"] = self.prices
        return {BUDGET_HEADER: orjson.dumps(left, default=list).decode()}

    def note_reply(
        self, task: PlannedAttempt, reply: Reply, result: AttemptResult, began: float
    ) -> AttemptResult:
        """Count what an attempt has spent, and return its result with that. `began` is on the clock of rollouts."""
        spent = read_spent(reply.headers.get(SPENT_HEADER))
        self._count(task.identity, task.agent, spent, rollout_time() - began)
        if not isinstance(result, AgentAnswer) or result.encoded is None:
            return result
        return AgentAnswer(result.row, append_spent(result.encoded, write_spent(spent)))

    def note_file(self, rows: Path) -> None:
        """Count the rows of earlier starts."""
        for line in read_lines(rows):
            row: AnyRow = orjson.loads(line.content)
            identity = identity_in(row) or RolloutId(0, 0)
            spent = read_spent(dict(read_spent_member(row)))
            self._count(identity, read_agent_or_unknown(row), spent, read_seconds(row) or 0.0)
            self.settle(identity)

    def settle(self, identity: RolloutId) -> None:
        """Forget the account of a rollout that is settled."""
        self._rollouts.pop(identity, None)

    def limit_starts(self, plan: Iterable[PlannedAttempt]) -> Iterator[PlannedAttempt]:
        """Yield the attempts of `plan` whose tasks have something left."""
        limits = self._limits.task
        for planned in plan:
            task = planned.identity.task
            if limits.limits and find_spent(limits, self._tasks.get(task, Account()), self.prices):
                self._not_started[task] = self._not_started.get(task, 0) + 1
                continue
            yield planned

    def _count(self, identity: RolloutId, agent: str, spent: Spent, seconds: float) -> None:
        accounts = [self.run, self.agents.setdefault(agent, Account())]
        if self._limits.task.limits:
            accounts.append(self._tasks.setdefault(identity.task, Account()))
        if self._limits.rollout.limits:
            accounts.append(self._rollouts.setdefault(identity, Account()))
        for account in accounts:
            account.add(spent, seconds)
        if name := find_spent(self._limits.run, self.run, self.prices):
            limit = self._limits.run.limits[name]
            self._on_spent(
                StopReason(
                    BUDGET,
                    f"the budget of the run, {write_amount(name, limit)}, is spent; all finished rollouts are on disk",
                    f"Raise +budget.run.{name}, then resume with +resume_from_cache=true (gym: --resume).",
                )
            )

    # --- The end ------------------------------------------------------------------------------------------------

    def describe(self) -> Iterator[str]:
        """Yield notes on limits that were reached."""
        if name := find_spent(self._limits.run, self.run, self.prices):
            limit, amount = self._limits.run.limits[name], self.run.measure(self.prices)[name]
            yield (
                f"the run has spent {write_amount(name, amount)} of {write_amount(name, limit)}: "
                f"{write_amount(name, amount - limit)} more by rollouts that were in flight"
            )
        if self._not_started:
            count, tasks = sum(self._not_started.values()), len(self._not_started)
            yield f"{count:,} rollouts of {tasks:,} tasks were not started: the budget of their task is spent"

    def to_json(self) -> dict[str, Any]:
        """Return what the run has spent, as plain data."""
        return {
            **self.run.measure(self.prices),
            "models": [
                {
                    "server": name,
                    "model": self.servers[name].model if name in self.servers else name,
                    "role": self.servers[name].role if name in self.servers else "policy",
                    **tokens._asdict(),
                    "cost": tokens.cost(self.prices[name]) if name in self.prices else None,
                }
                for name, tokens in sorted(self.run.servers.items())
            ],
            "agents": {name: account.measure(self.prices) for name, account in sorted(self.agents.items())},
            "budget": {level: amounts.limits for level, amounts in self._limits if amounts.limits},
        }


def find_spent(limits: Amounts, account: Account, prices: Mapping[str, Price]) -> str | None:
    """Return the name of a limit that an account has reached; None without one."""
    if not limits.limits:
        return None
    measured = account.measure(prices)
    return next((name for name, limit in limits.limits.items() if measured[name] >= limit), None)


def write_amount(name: str, amount: float) -> str:
    """Return an amount with its unit."""
    if name == "tokens":
        return f"{round(amount):,} tokens"
    return f"{amount:,.2f} s" if name == "seconds" else f"a cost of {amount:,.4f}"
