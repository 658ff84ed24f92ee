"""The budgets of a run: what its rollouts spend, by model server, and the limits of a rollout, a task and the run.

Each attempt gets a ledger (`nemo_gym.transport.budget`) with what is left for its rollout, and its answer tells what it
has spent, also if it has failed. Rows and failures keep it, so that a resumed run counts all starts. An answer that is
lost tells nothing; the calls of its attempt are counted when a continued attempt replays them, else not at all, and the
notes say so. A rollout is cut off by its agent. A task or a run whose budget is spent starts no further rollout, and
those in flight finish: the overshoot is at most what they spend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from nemo_gym.clock import rollout_time
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult
from nemo_gym.rollouts.run.collector import ResultSink
from nemo_gym.rollouts.run.options import Amounts, BudgetOptions
from nemo_gym.rollouts.run.prices import PricedServer
from nemo_gym.rollouts.run.stopping import BUDGET, StopReason
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_in
from nemo_gym.rows.parts import add_spent as add_to_row
from nemo_gym.rows.parts import append_spent, read_agent_or_unknown
from nemo_gym.rows.parts import read_spent as read_spent_member
from nemo_gym.rows.timing import read_seconds
from nemo_gym.rows.verdict import read_failure_class
from nemo_gym.transport.budget import (
    Price,
    Spent,
    Tokens,
    add_spent,
    compute_cost,
    read_spent,
    split_replayed,
    write_spent,
)
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.context import BUDGET_HEADER, SPENT_HEADER


@dataclass(slots=True)
class Account:
    """The spending of a rollout, a task, an agent or the run."""

    servers: Spent = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, spent: Mapping[str, Tokens], seconds: float) -> None:
        self.servers = add_spent(self.servers, spent)
        self.seconds += seconds

    def measure(self, prices: Mapping[str, Price]) -> dict[str, float]:
        """Return the amounts by the names of limits."""
        tokens = sum(each.total for each in self.servers.values())
        return {"tokens": tokens, "cost": compute_cost(self.servers, prices), "seconds": self.seconds}

    def to_json(self, prices: Mapping[str, Price]) -> dict[str, Any]:
        """Return the amounts, and those of each model server, as plain data."""
        servers = {name: describe_tokens(name, each, prices) for name, each in sorted(self.servers.items())}
        return {**self.measure(prices), "servers": servers}


class Budgets:
    """Counts what a run spends, and limits it."""

    def __init__(
        self,
        options: BudgetOptions,
        servers: Iterable[PricedServer],
        on_spent: Callable[[StopReason], None],
        environments: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`on_spent` is called when the budget of the run is spent. `environments`: agent → its environment."""
        self._limits = options.budget
        self.servers = {each.name: each for each in servers}
        self.prices = {name: each.price for name, each in self.servers.items() if each.price is not None}
        self.run = Account()
        self.agents: dict[str, Account] = {}
        self._tasks: dict[int, Account] = {}
        self._rollouts: dict[RolloutId, Account] = {}
        """Those of rollouts that are not settled."""
        self._covered: dict[RolloutId, Spent] = {}
        """Of rollouts that are not settled, the recorded calls that are counted."""
        self._latest: dict[RolloutId, Spent] = {}
        """Of the same, what the latest attempt has spent."""
        self._on_spent = on_spent
        self._environments = environments
        self._lost = 0
        """Attempts of this start without an answer."""
        self._not_started: dict[int, int] = {}
        """Task → its rollouts that were not started."""

    # --- Attempts -----------------------------------------------------------------------------------------------

    def build_headers(self, task: PlannedAttempt, *, continues: bool = False) -> dict[str, str]:
        """Return the header with what is left for an attempt. `continues`: it replays the calls of an earlier one."""
        limits, spent = self._limits.rollout.limits, self._rollouts.get(task.identity, Account())
        measured = spent.measure(self.prices)
        left: dict[str, Any] = {name: limit - measured[name] for name, limit in limits.items()}
        if continues:  # its ledger counts the replayed calls again
            covered = Account(self._covered.get(task.identity, {})).measure(self.prices)
            left = {name: amount + covered[name] for name, amount in left.items()}
        else:
            self._covered.pop(task.identity, None)
        if "cost" in left:
            left["prices"] = self.prices
        return {BUDGET_HEADER: orjson.dumps(left, default=list).decode()}

    def note_reply(
        self, task: PlannedAttempt, reply: Reply, result: AttemptResult, began: float
    ) -> AttemptResult:
        """Count what an attempt has spent, and return its result with that. `began` is on the clock of rollouts."""
        live, replayed = split_replayed(read_spent(reply.headers.get(SPENT_HEADER)))
        spent = self._count_once(task.identity, live, replayed)
        self._latest[task.identity] = spent
        self._count(task.identity, task.agent, spent, rollout_time() - began)
        if not isinstance(result, AgentAnswer):
            return result
        written, cost = self._write(spent)
        encoded = None if result.encoded is None else append_spent(result.encoded, written, cost)
        return AgentAnswer(add_to_row(result.row, spent, cost), encoded)

    def note_lost(self, task: PlannedAttempt, began: float) -> None:
        """Count an attempt without an answer."""
        self._lost += 1
        self._count(task.identity, task.agent, {}, rollout_time() - began)

    def note_files(self, *files: Path) -> None:
        """Count the rows and the failed attempts of earlier starts."""
        for path in filter(holds_text, files):
            for line in read_lines(path):
                row: AnyRow = orjson.loads(line.content)
                identity = identity_in(row) or RolloutId(0, 0)
                spent = read_spent(dict(read_spent_member(row)))
                self._count(identity, read_agent_or_unknown(row), spent, read_seconds(row) or 0.0)
                self.settle(identity)
                if read_failure_class(row) is not None:
                    self._covered[identity] = add_spent(self._covered.get(identity, {}), spent)

    def keep(self, output: ResultSink) -> ResultSink:
        """Return an output whose failures have what their attempts have spent."""
        return _SpentFailures(output, self)

    def add_to_failure(self, line: bytes) -> bytes:
        """Return the row of a failed attempt with what it has spent."""
        row: AnyRow = orjson.loads(line)
        identity = identity_in(row)
        spent = self._latest.pop(identity, None) if identity is not None else None
        return line if spent is None or read_spent_member(row) else append_spent(line, *self._write(spent))

    def _count_once(self, identity: RolloutId, live: Spent, replayed: Spent) -> Spent:
        """Return what an attempt has spent, with those of its replayed calls whose first answer told nothing."""
        if replayed or identity in self._covered:
            covered = self._covered.get(identity, {})
            untold = {name: tokens.minus(covered.get(name, Tokens())) for name, tokens in replayed.items()}
            spent = add_spent(live, {name: tokens for name, tokens in untold.items() if any(tokens)})
        else:
            spent = live
        self._covered[identity] = add_spent(live, replayed)
        return spent

    def _write(self, spent: Spent) -> tuple[bytes, float | None]:
        return write_spent(spent), compute_cost(spent, self.prices) if self.prices else None

    def settle(self, identity: RolloutId) -> None:
        """Forget the account of a rollout that is settled."""
        for accounts in (self._rollouts, self._covered, self._latest):
            accounts.pop(identity, None)

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
        """Yield notes on limits that were reached, and on expenses that are not known."""
        if self._lost:
            yield (
                f"{self._lost:,} attempts ended without an answer (cancelled, or their server was lost): their tokens "
                "are counted only as far as a continued attempt replayed them"
            )
        if name := find_spent(self._limits.run, self.run, self.prices):
            limit, amount = self._limits.run.limits[name], self.run.measure(self.prices)[name]
            yield (
                f"the run has spent {write_amount(name, amount)} of {write_amount(name, limit)}: "
                f"{write_amount(name, amount - limit)} more by rollouts that were in flight"
            )
        if self._not_started:
            count, tasks = sum(self._not_started.values()), len(self._not_started)
            yield f"{count:,} rollouts of {tasks:,} tasks were not started: the budget of their task is spent"

    def measure(self) -> dict[str, float]:
        """Return what the run has spent by now, by the names of limits."""
        return self.run.measure(self.prices)

    def to_json(self) -> dict[str, Any]:
        """Return what the run has spent, as plain data: by model, agent and environment."""
        environments: dict[str, Account] = {}
        for agent, account in self.agents.items():
            name = self._environments.get(agent, agent)
            environments.setdefault(name, Account()).add(account.servers, account.seconds)
        return {
            **self.measure(),
            "models": [self._describe_server(*each) for each in sorted(self.run.servers.items())],
            **{
                kind: {name: account.to_json(self.prices) for name, account in sorted(accounts.items())}
                for kind, accounts in (("agents", self.agents), ("environments", environments))
            },
            "budget": {level: amounts.limits for level, amounts in self._limits if amounts.limits},
            "lost_attempts": self._lost,
        }

    def _describe_server(self, name: str, tokens: Tokens) -> dict[str, Any]:
        server = self.servers.get(name) or PricedServer(name, name, "policy")
        return {
            "server": name,
            "model": server.model,
            "role": server.role,
            **describe_tokens(name, tokens, self.prices),
        }


class _SpentFailures:
    """An output whose failures have what their attempts have spent."""

    def __init__(self, output: ResultSink, budgets: Budgets) -> None:
        self.add_row = output.add_row
        self._output = output
        self._budgets = budgets

    def add_failure(self, line: bytes) -> None:
        self._output.add_failure(self._budgets.add_to_failure(line))


def describe_tokens(server: str, tokens: Tokens, prices: Mapping[str, Price]) -> dict[str, Any]:
    """Return the tokens of a model server with their cost, which is None without a price."""
    return {**tokens._asdict(), "cost": tokens.cost(prices[server]) if server in prices else None}


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
