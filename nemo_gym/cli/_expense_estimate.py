"""The dry run of a collection: its rollouts, and what they will spend, from stored rows of the same environments."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.expense_estimate import EnvironmentEstimate, ExpensePlan
    from nemo_gym.rollouts.run.input_check import CheckedInput
    from nemo_gym.rollouts.run.settings import CollectSettings


def print_dry_run(
    settings: CollectSettings,
    checked: CheckedInput,
    config: Mapping[str, Any],
    estimate_from: Sequence[str] = (),
    *,
    as_json: bool,
) -> None:
    """Print what a collection would do and spend. Raises `ConfigError` for rows to estimate from that are none."""
    from nemo_gym.cli.command import print_folded
    from nemo_gym.rollouts.lookback.expense_estimate import (
        AMOUNTS,
        add_totals,
        estimate_expenses,
        find_runs,
    )
    from nemo_gym.rollouts.lookback.stored import find_results

    named = [find_results(Path(path)).rows for path in estimate_from]
    runs = named or find_runs(settings.output.parent)
    plan = build_expense_plan(settings, checked, config)
    estimates = estimate_expenses(plan, runs)
    if as_json:
        told = {
            "rollouts": sum(each.rollouts for each in plan.planned.values()),
            "estimates": [_build_entry(each) for each in estimates],
            "total": {name: add_totals(estimates, name)._asdict() for name in AMOUNTS} if estimates else None,
        }
        print(json.dumps(told, indent=2))
        return
    for line in _describe(settings, plan, estimates, has_named=bool(named)):
        print_folded(line)


def build_expense_plan(
    settings: CollectSettings, checked: CheckedInput, config: Mapping[str, Any]
) -> ExpensePlan:
    """Return the part of a collection that decides what it spends; of a resumed one, without the stored rollouts."""
    from nemo_gym.metrics import Planned
    from nemo_gym.rollouts.lookback.expense_estimate import ExpensePlan
    from nemo_gym.rollouts.output.run_facts import read_facts
    from nemo_gym.rollouts.run.prices import list_model_servers
    from nemo_gym.rollouts.run.required_servers import MODEL_TYPE, is_server, references_in
    from nemo_gym.transport.directory import server_block

    inspection = checked.inspection
    agents = {agent: server_block(config.get(agent)) or {} for agent in inspection.agents}
    servers = list_model_servers(agents, config, settings.prices)
    policies = {
        agent: next((name for name in references_in(block) if is_server(config.get(name), MODEL_TYPE)), "")
        for agent, block in agents.items()
    }
    stored = count_stored(settings)
    return ExpensePlan(
        {
            agent: Planned(tasks, max(0, inspection.rollouts_of[agent] - stored[agent]))
            for agent, tasks in inspection.agents.items()
        },
        config,
        read_facts({"config": config}).models,
        {each.name: each.price for each in servers if each.price is not None},
        policies,
        frozenset(each.sha256 for each in inspection.files),
        stored.total(),
    )


def count_stored(settings: CollectSettings) -> Counter[str]:
    """Return the number of rows by agent that a resumed collection keeps; nothing for one that is not resumed."""
    from nemo_gym.rollouts.output.journal import Existing
    from nemo_gym.rollouts.plan.compression import holds_text
    from nemo_gym.rollouts.plan.dataset import read_lines
    from nemo_gym.rollouts.plan.task_rows import read_object
    from nemo_gym.rows.parts import read_agent_or_unknown

    path = settings.output
    if settings.existing is not Existing.RESUME or not holds_text(path):
        return Counter()
    rows = (
        read_object(line.content, f"{path}:{line.number}", code="damaged_output") for line in read_lines(path)
    )
    return Counter(read_agent_or_unknown(row) for row in rows)


def _build_entry(estimate: EnvironmentEstimate) -> dict[str, Any]:
    return {
        "environment": estimate.environment,
        "tasks": estimate.planned.tasks,
        "rollouts": estimate.planned.rollouts,
        "run": str(estimate.run),
        "models": list(estimate.models),
        "has_other_tasks": estimate.has_other_tasks,
        "measured_rollouts": estimate.measured.rollouts,
        "measured_tasks": len(estimate.measured.tasks),
        "counts_policy_alone": estimate.measured.counts_policy_alone,
        **{name: total._asdict() for name, total in estimate.totals.items()},
    }


def _describe(
    settings: CollectSettings,
    plan: ExpensePlan,
    estimates: Sequence[EnvironmentEstimate],
    *,
    has_named: bool,
) -> Iterator[str]:
    from nemo_gym.rollouts.lookback.expense_estimate import add_totals, describe_estimates, write_total
    from nemo_gym.rollouts.output.expenses import write_seconds
    from nemo_gym.rollouts.run.required_servers import name_environment

    tasks, rollouts = (
        sum(getattr(each, name) for each in plan.planned.values()) for name in ("tasks", "rollouts")
    )
    kept = f" beside {plan.stored:,} stored ones" if plan.stored else ""
    yield f"dry run: {rollouts:,} rollouts of {tasks:,} tasks{kept}, to {settings.output}; nothing was started"
    if not rollouts:
        return
    yield from describe_estimates(estimates, has_prices=bool(plan.prices))
    known = {each.environment for each in estimates}
    unknown = sorted({name_environment(agent, plan.config) for agent in plan.planned} - known)
    if unknown:
        where = "the named runs have" if has_named else f"the runs below {settings.output.parent} have"
        yield f"no estimate for {', '.join(unknown)}: {where} no rows of it"
        yield "-> Run a few of its tasks first (+limit=5), or name rows of it: +estimate_from=FILE"
        return
    in_parallel = settings.limits.in_parallel
    if isinstance(in_parallel, int):
        hours = add_totals(estimates, "seconds").mean / min(in_parallel, rollouts)
        yield f"about {write_seconds(hours)} with {in_parallel} in flight, if the engine is as fast"
    for name, limit in settings.budget.run.limits.items():
        total = add_totals(estimates, name)
        if (total.high or total.mean) > limit:
            yield f"+budget.run.{name}={limit:g} may end the run early: {write_total(name, total)}"
    if not plan.prices:
        yield "-> With +prices={MODEL: {input: 1, output: 4}} it tells the cost, too."
