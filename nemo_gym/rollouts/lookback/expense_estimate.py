"""The expenses of a planned run, estimated from the stored rows of an earlier run on the same environments.

The amounts of a rollout are those of all its attempts. A total is the mean of a rollout times their number. Its 95 %
interval is a prediction: it has the error of the mean, clustered by task, and the spread of the tasks and rollouts that
are still to come. Tasks count as a random sample of tasks like them. Few tasks with a heavy
tail cover less: 30 tasks with lognormal lengths (sigma 0.8 between and within tasks) 89 to 92 % of runs of 50 others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import exp, fsum, log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import finite_number, member
from nemo_gym.metrics import Planned
from nemo_gym.metrics.estimators import student_t_975
from nemo_gym.rollouts.lookback.stored import find_results
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.manifest import Manifest
from nemo_gym.rollouts.output.run_facts import read_facts
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rollouts.run.required_servers import name_environment
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_in
from nemo_gym.rows.parts import count_tokens, read_agent_or_unknown, read_spent, read_usage
from nemo_gym.rows.timing import read_seconds
from nemo_gym.statistics.planning import measure_spread
from nemo_gym.tables import write_number
from nemo_gym.transport.budget import Price, Tokens, compute_cost
from nemo_gym.transport.budget import read_spent as read_counts

AMOUNTS = ("tokens", "cost", "seconds")
"""The names of amounts, as those of budgets."""
_ENDING = "_run.json"
_LEAST_TASKS = 5
"""Measured tasks of an interval: the spread of fewer may be that of equal ones by chance."""


class Total(NamedTuple):
    """An amount of a planned run with its 95 % interval."""

    mean: float
    low: float | None
    """None if one task alone was measured."""
    high: float | None


@dataclass(slots=True)
class StoredExpenses:
    """The amounts of an environment's rollouts, by task."""

    tasks: dict[int, dict[RolloutId, dict[str, float]]] = field(default_factory=dict)
    counts_policy_alone: bool = False
    """Whether a row has no account of its calls, so that those of judges and users are missing."""

    @property
    def rollouts(self) -> int:
        """Return the number of rollouts."""
        return sum(map(len, self.tasks.values()))

    def add(self, identity: RolloutId, amounts: Mapping[str, float]) -> None:
        """Add an attempt at a rollout."""
        rollout = self.tasks.setdefault(identity.task, {}).setdefault(identity, dict.fromkeys(AMOUNTS, 0.0))
        for name, amount in amounts.items():
            rollout[name] += amount

    def predict(self, name: str, planned: Planned) -> Total:
        """Return the total of an amount in `planned.rollouts` rollouts of `planned.tasks` tasks."""
        tasks = [[rollout[name] for rollout in own.values()] for own in self.tasks.values()]
        return predict_total(tasks, planned.tasks, planned.rollouts)


def predict_total(tasks: Sequence[Sequence[float]], planned_tasks: int, planned_rollouts: int) -> Total:
    """Return the total of further rollouts, from the amounts of measured ones by task.

    The variance of the prediction is that of the measured mean, with tasks as clusters, times the square of the number
    of rollouts, and that of the further tasks' means and rollouts (a random effect of the task). Its quantile is that
    of Student's t with the measured tasks less one degrees of freedom.
    """
    count = sum(map(len, tasks))
    mean = fsum(map(fsum, tasks)) / count
    if len(tasks) < _LEAST_TASKS or not planned_rollouts:
        return Total(mean * planned_rollouts, None, None)
    squares = fsum((fsum(own) - len(own) * mean) ** 2 for own in tasks)
    of_mean = squares * len(tasks) / (len(tasks) - 1) / count**2
    spread = measure_spread(tasks)
    if spread is None:  # one rollout of each task: all spread counts as that of tasks
        within, between = 0.0, of_mean * len(tasks)
    else:
        within, between = spread.within, spread.between
    repeats = planned_rollouts / max(1, planned_tasks)
    further = planned_tasks * repeats**2 * between + planned_rollouts * within
    half = student_t_975(len(tasks) - 1) * sqrt(planned_rollouts**2 * of_mean + further)
    return _build_total(mean * planned_rollouts, half)


def _build_total(total: float, half: float) -> Total:
    """Return a total with an interval whose bounds have the same ratio to it: amounts are skewed, never negative."""
    ratio = exp(half / total) if total > 0.0 else 1.0
    return Total(total, total / ratio, total * ratio)


@dataclass(frozen=True, slots=True)
class EnvironmentEstimate:
    """The estimate of one environment."""

    environment: str
    planned: Planned
    run: Path
    models: tuple[str, ...]
    measured: StoredExpenses
    totals: Mapping[str, Total]
    has_other_tasks: bool = False
    """Whether the measured run had another file of rows."""


class ExpensePlan(NamedTuple):
    """The part of a planned run that decides what it spends."""

    planned: Mapping[str, Planned]
    """By agent."""
    config: Mapping[str, Any]
    models: tuple[str, ...]
    """The names of the models that its agents ask."""
    prices: Mapping[str, Price]
    """By model server; empty for a run without prices."""
    policies: Mapping[str, str]
    """Agent → its model server."""
    datasets: frozenset[str] = frozenset()
    """The digests of its files of rows; empty if they are not known."""
    stored: int = 0
    """The rollouts that a resumed run keeps, which are not in `planned`."""


def find_runs(folder: Path) -> list[Path]:
    """Return the rows of the runs below `folder`, the latest first."""
    found = [
        rows
        for manifest in folder.rglob(f"*{_ENDING}")
        if holds_text(rows := manifest.with_name(f"{manifest.name.removesuffix(_ENDING)}.jsonl"))
    ]
    return sorted(found, key=lambda rows: rows.stat().st_mtime, reverse=True)


def estimate_expenses(plan: ExpensePlan, runs: Iterable[Path]) -> list[EnvironmentEstimate]:
    """Return an estimate for each environment of the plan that a run has rows of.

    Of several runs, the first with the same models and files of rows counts, else with the same models, or else the
    first. Raises `ConfigError` for damaged rows.
    """
    by_environment: dict[str, list[str]] = {}
    for agent in plan.planned:
        by_environment.setdefault(name_environment(agent, plan.config), []).append(agent)
    candidates = [candidate for rows in runs if (candidate := _Candidate.read(rows)) is not None]
    ranked = sorted(candidates, key=lambda each: (each.models != plan.models, each.has_other_tasks(plan)))
    estimates = []
    for environment, agents in sorted(by_environment.items()):
        planned = Planned(
            sum(plan.planned[agent].tasks for agent in agents),
            sum(plan.planned[agent].rollouts for agent in agents),
        )
        for candidate in ranked:
            measured = candidate.measure(environment, plan, agents)
            if measured.tasks:
                totals = {name: measured.predict(name, planned) for name in AMOUNTS}
                models = candidate.models
                estimates.append(
                    EnvironmentEstimate(
                        environment, planned, candidate.files.rows, models, measured, totals,
                        has_other_tasks=candidate.has_other_tasks(plan),
                    )
                )  # fmt: skip
                break
    return estimates


class _Candidate(NamedTuple):
    """A stored run."""

    files: RunFiles
    models: tuple[str, ...]
    config: Mapping[str, Any]
    datasets: frozenset[str]

    def has_other_tasks(self, plan: ExpensePlan) -> bool:
        """Return whether its files of rows are known to be others than the plan's."""
        return bool(plan.datasets and self.datasets) and plan.datasets != self.datasets

    @classmethod
    def read(cls, rows: Path) -> _Candidate | None:
        """Return the run with the rows `rows`; None for rows of another kind, or without a manifest."""
        with suppress(ConfigError):
            files = find_results(rows)
            manifest = Manifest.read(files.manifest)
            if manifest is not None:
                facts = read_facts(manifest.identity, manifest.starts)
                config = manifest.identity.get("config")
                listed = manifest.identity.get("datasets")
                datasets = [member(each, "sha256") for each in listed] if isinstance(listed, list) else []
                known = frozenset(each for each in datasets if isinstance(each, str))
                return cls(files, facts.models, config if isinstance(config, Mapping) else {}, known)
        return None

    def measure(self, environment: str, plan: ExpensePlan, agents: Sequence[str]) -> StoredExpenses:
        """Return the amounts of the rollouts on an environment, with the prices of the plan."""
        measured, policy = StoredExpenses(), plan.policies.get(agents[0], "")
        for path in (self.files.rows, self.files.failures):
            for line in read_lines(path) if holds_text(path) else ():
                row: AnyRow = read_object(line.content, f"{path}:{line.number}", code="damaged_output")
                identity = identity_in(row)
                agent = read_agent_or_unknown(row)
                if identity is None or name_environment(agent, self.config) != environment:
                    continue
                spent = read_counts(dict(read_spent(row)))
                if not spent and (tokens := _read_policy_tokens(row)) is not None:
                    spent, measured.counts_policy_alone = {policy: tokens}, True
                tokens_of_all = sum(each.total for each in spent.values())
                measured.add(
                    identity,
                    {
                        "tokens": tokens_of_all,
                        "cost": compute_cost(spent, plan.prices),
                        "seconds": read_seconds(row) or 0.0,
                    },
                )
        return measured


def _read_policy_tokens(row: AnyRow) -> Tokens | None:
    """Return the tokens of the policy in a row of a run that did not count its expenses."""
    total, usage = count_tokens(row), read_usage(row)
    if total is None:
        return None
    output = int(finite_number(usage.get("output_tokens")) or 0)
    details = usage.get("input_tokens_details")
    cached = finite_number(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    return Tokens(1, total - output, int(cached or 0), output)


def add_totals(estimates: Sequence[EnvironmentEstimate], name: str) -> Total:
    """Return the total of all environments; their errors are independent."""
    totals = [each.totals[name] for each in estimates]
    mean = fsum(total.mean for total in totals)
    if any(total.low is None or total.high is None for total in totals):
        return Total(mean, None, None)
    halves = (total.mean * log(total.high / total.mean) for total in totals if total.high and total.mean)
    return _build_total(mean, sqrt(fsum(half**2 for half in halves)))


def describe_estimates(estimates: Sequence[EnvironmentEstimate], *, has_prices: bool) -> Iterator[str]:
    """Yield the estimate as lines, by environment and in all."""
    names = [name for name in AMOUNTS if has_prices or name != "cost"]
    for each in estimates:
        models = f" ({', '.join(each.models)})" if each.models else ""
        yield (
            f"{each.environment}: {each.planned.rollouts:,} rollouts of {each.planned.tasks:,} tasks, by "
            f"{each.measured.rollouts:,} rollouts of {len(each.measured.tasks):,} tasks in {each.run}{models}"
        )
        for name in names:
            yield f"  {name:<8}{write_total(name, each.totals[name])}"
        if each.has_other_tasks:
            yield "  these are of another file of tasks, whose rollouts may cost more or less (+estimate_from=FILE)"
        if each.measured.counts_policy_alone:
            yield "  these are of the policy alone: that run counted no calls of judges and users"
    if len(estimates) > 1:
        yield "all environments:"
        for name in names:
            yield f"  {name:<8}{write_total(name, add_totals(estimates, name))}"


def write_total(name: str, total: Total) -> str:
    """Return an amount with its interval."""

    def write(amount: float) -> str:
        return write_number(amount, 4) if name == "cost" else f"{amount:,.0f}"

    if total.low is None or total.high is None:
        return f"{write(total.mean)} (no interval: too few tasks were measured)"
    return f"{write(total.mean)} ({write(total.low)} to {write(total.high)}, with 95 %)"
