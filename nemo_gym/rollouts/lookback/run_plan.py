"""The plan of an evaluation: what a number of repeats can show, and what a difference or a width costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import mean
from nemo_gym.rollouts.lookback.score_tables import ScoreTable, read_scores
from nemo_gym.rollouts.lookback.task_clusters import TaskKey
from nemo_gym.statistics.planning import (
    Spread,
    bound_spread,
    count_repeats_for_difference,
    count_repeats_for_width,
    count_sequential_rollouts,
    find_half_width,
    find_smallest_difference,
    measure_spread,
)


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """A plan. Widths and differences are in units of the reward."""

    assumption: str
    """Where the spread of rewards comes from."""
    is_measured: bool
    """Whether it is that of an earlier run, and no bound."""
    tasks: int
    repeats: int
    generalizes: bool
    power: float
    within: float
    """The mean variance of a task's rewards."""
    between: float
    """The variance of tasks' means."""
    half_width: float
    """Of the 95 % interval of a mean."""
    smallest_difference: float
    """Of two models with this many repeats each, found with the probability `power`."""
    difference: float | None
    repeats_for_difference: int | None
    """None if no difference was asked for, or if no number suffices."""
    width: float | None
    repeats_for_width: int | None
    sequential_rollouts: int | None
    """About how many rollouts a run with `until` takes for the width."""
    tokens_per_rollout: float | None
    notes: list[str]
    """Sentences on the runs that the spread is of."""

    @property
    def clustered_half_width(self) -> float:
        """Return the half-width for the mean of all tasks like these, which the tables of runs show."""
        measured = Spread(self.within, self.between)
        largest = Spread(0.0, self.within + self.between)  # of rewards of 0 and 1 with this mean
        return find_half_width(measured if self.is_measured else largest, self.tasks, self.repeats)


def make_plan(
    *,
    run: Path | None = None,
    against: Path | None = None,
    tasks: int | None = None,
    repeats: int = 1,
    rate: float = 0.5,
    difference: float | None = None,
    width: float | None = None,
    power: float = 0.8,
    generalizes: bool = False,
) -> EvaluationPlan:
    """Return a plan from the spread of an earlier run, or of rewards of 0 and 1 with the mean `rate`.

    Raises `ConfigError` without a run and a number of tasks, or if a run cannot tell its spread.
    """
    table, other = (_read_tasks(path) if path else None for path in (run, against))
    spread, apart, assumption = _find_spread(table, other, rate, generalizes)
    count = _choose_count(tasks or _count_tasks(table), generalizes)
    own, both = (Spread(spread.within, each if generalizes else 0.0) for each in (spread.between, apart))
    needed = count_repeats_for_difference(both, count, difference, power) if difference else None
    return EvaluationPlan(
        assumption=assumption,
        is_measured=table is not None,
        tasks=count,
        repeats=repeats,
        generalizes=generalizes,
        power=power,
        within=spread.within,
        between=spread.between,
        half_width=find_half_width(own, count, repeats),
        smallest_difference=find_smallest_difference(both, count, repeats, power),
        difference=difference,
        repeats_for_difference=needed,
        width=width,
        repeats_for_width=count_repeats_for_width(own, count, width) if width else None,
        sequential_rollouts=count_sequential_rollouts(own, width) if width and not generalizes else None,
        tokens_per_rollout=table.tokens_per_rollout if table else None,
        notes=[note for each in (table, other) if each for note in each.notes],
    )


def _choose_count(tasks: int, generalizes: bool) -> int:
    if generalizes and tasks < 2:
        raise ConfigError(
            "one task says nothing about others",
            code="too_few_tasks",
            remedy="Plan with more tasks, or without --generalize: then the mean is that of this task.",
        )
    return tasks


def _read_tasks(path: Path) -> ScoreTable:
    """Return the scores of a run, its equal tasks as one: another copy of a task tells nothing of others."""
    table = read_scores(path)
    joined = table.join_equal_tasks()
    if table.unscored:
        joined.notes.append(
            f"{path}: tasks of the run without a reward, which the plan leaves out: {table.unscored:,}; --tasks "
            "(+tasks=) plans another number"
        )
    if copies := len(table.tasks) - len(joined.tasks):
        joined.notes.append(
            f"{path}: {copies:,} of {len(table.tasks):,} tasks repeat another one; the plan takes equal tasks for one"
        )
    return joined


def _count_tasks(table: ScoreTable | None) -> int:
    if table is None:
        raise ConfigError(
            "a plan needs the number of tasks",
            code="no_tasks",
            remedy="Give +tasks=200 (gym: --tasks 200), or the rows of an earlier run.",
        )
    return len(table.tasks)


def _find_spread(
    table: ScoreTable | None, other: ScoreTable | None, rate: float, generalizes: bool
) -> tuple[Spread, float, str]:
    """Return the spread of rewards, the variance of differences between tasks, and where both come from."""
    if table is None:
        spread = Spread.of_rate(rate, generalizes=generalizes)
        return spread, 2 * spread.between, f"rewards of 0 and 1, {_describe_rate(rate, generalizes)}"
    spread, assumption = _measure(table), f"the rewards of {table.path}"
    if not spread.within:
        spread = _bound(table, spread)
        assumption += (
            ", which agree within each task: their spread is the largest that so few of them may hide"
        )
    if generalizes and _count_tasks(table) < 2:
        raise ConfigError(
            f"{table.path} has one task, which says nothing about others",
            code="too_few_tasks",
            remedy="Plan from a run of more tasks, or without --generalize: then the mean is that of this task.",
        )
    if other is None:
        return spread, spread.between, assumption
    apart = _measure_differences(table, other, spread.within)
    return spread, apart, f"{assumption} and their differences from {other.path}"


def _describe_rate(rate: float, generalizes: bool) -> str:
    if generalizes:
        return f"{rate:.0%} of the tasks solved in every rollout and the rest in none, and other tasks by each model"
    return f"all tasks solved in {rate:.0%} of the rollouts"


def _measure(table: ScoreTable) -> Spread:
    found = [
        (len(sample), spread)
        for sample in table.list_samples()
        if (spread := measure_spread([*sample.values()])) is not None
    ]
    if not found:
        raise ConfigError(
            f"{table.path} has one rollout of each task, which tells nothing of their spread",
            code="no_repeats",
            remedy="Plan from a run with two repeats or more, or from stated assumptions: --tasks N --rate 0.7.",
        )
    whole = sum(count for count, _ in found)
    return Spread(
        fsum(count * spread.within for count, spread in found) / whole,
        fsum(count * spread.between for count, spread in found) / whole,
    )


def _bound(table: ScoreTable, spread: Spread) -> Spread:
    """Return the largest spread that rewards which agree may hide."""
    bound = bound_spread([scores for sample in table.list_samples() for scores in sample.values()])
    return Spread(spread.within or bound.within, spread.between or bound.between)


def _measure_differences(one: ScoreTable, other: ScoreTable, within: float) -> float:
    """Return the variance of the differences of tasks' means that the variance within tasks does not explain."""
    found = [
        (len(pairs), _measure_apart(pairs, within))
        for sample in one.list_samples()
        if len(pairs := _pair_scores(sample, other)) > 1
    ]
    if not found:
        raise ConfigError(
            f"{one.path} and {other.path} share fewer than two tasks",
            code="nothing_to_compare",
            remedy="Compare runs of the same tasks.",
        )
    return fsum(count * apart for count, apart in found) / sum(count for count, _ in found)


def _pair_scores(
    sample: Mapping[tuple[str, TaskKey], list[float]], other: ScoreTable
) -> list[tuple[list[float], list[float]]]:
    return [
        (scores, other.environments[name][key].scores)
        for (name, key), scores in sample.items()
        if key in other.environments.get(name, {})
    ]


def _measure_apart(pairs: Sequence[tuple[list[float], list[float]]], within: float) -> float:
    differences = [mean(a) - mean(b) for a, b in pairs]
    center = mean(differences)
    whole = sum((each - center) ** 2 for each in differences) / (len(pairs) - 1)
    explained = within * sum(1 / len(a) + 1 / len(b) for a, b in pairs) / len(pairs)
    return max(whole - explained, 0.0)


def describe_plan(plan: EvaluationPlan) -> Iterator[str]:
    """Yield the plan in plain words."""
    over = "all tasks like these" if plan.generalizes else "these tasks"
    yield f"Assumed: {plan.assumption}."
    rollouts = f"{plan.tasks * plan.repeats:,} rollouts{_tokens(plan, plan.repeats)}"
    yield f"{plan.tasks:,} tasks, {_times(plan.repeats)} each: {rollouts}."
    yield f"The mean over {over} will be known to ±{_points(plan.half_width)} (95 % interval)."
    if not plan.generalizes:
        most = "" if plan.is_measured else "at most "
        yield (
            "Tables of runs and comparisons show the interval of all tasks like these: "
            f"{most}±{_points(plan.clustered_half_width)} (--generalize)."
        )
    yield (
        f"Two models with so many rollouts each must differ by {_points(plan.smallest_difference)} for the difference "
        f"to be found in {plan.power:.0%} of such comparisons. A smaller one will often be missed."
    )
    if plan.difference is not None:
        yield _describe_need(
            plan, plan.repeats_for_difference, f"A difference of {_points(plan.difference)}", 2
        )
    if plan.width is not None:
        yield _describe_need(plan, plan.repeats_for_width, f"An interval of ±{_points(plan.width)}", 1)
    if plan.sequential_rollouts is not None:
        yield (
            f"A run with --until ±{plan.width:g} takes about {plan.sequential_rollouts:,} rollouts, fewer where tasks "
            "are sure, and needs no assumption."
        )
    yield from (f"note: {note}" for note in plan.notes)


def _describe_need(plan: EvaluationPlan, repeats: int | None, what: str, models: int) -> str:
    if repeats is None:
        why = "whatever the repeats: tasks differ too much. Add tasks."
        return f"{what} cannot be shown with {plan.tasks:,} tasks, {why}"
    rollouts = plan.tasks * repeats * models
    each = (
        f" for both models ({_times(repeats)} of each task)"
        if models > 1
        else f" ({_times(repeats)} of each task)"
    )
    return f"{what} needs {rollouts:,} rollouts{each}{_tokens(plan, repeats * models)}."


def _tokens(plan: EvaluationPlan, repeats: int) -> str:
    if plan.tokens_per_rollout is None:
        return ""
    return f", about {plan.tokens_per_rollout * plan.tasks * repeats:,.0f} output tokens"


def _times(count: int) -> str:
    return "1 rollout" if count == 1 else f"{count:,} rollouts"


def _points(value: float) -> str:
    return f"{100 * value:.2g} points"
