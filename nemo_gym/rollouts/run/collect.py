"""A collection from settings to summary: check the input, run the plan, compute metrics and summarize.

`collect` is the entry point of the commands. It needs a running gym and a caller that reaches it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import Planned
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import read_durations
from nemo_gym.rollouts.output.journal import Existing, Journal, open_journal
from nemo_gym.rollouts.output.manifest import build_identity
from nemo_gym.rollouts.output.materialized import AFTER_ALL, MaterializedInputs
from nemo_gym.rollouts.output.task_matching import find_numbers, pack_numbers
from nemo_gym.rollouts.plan.inspection import DatasetInspection, inspect
from nemo_gym.rollouts.plan.plan import Plan
from nemo_gym.rollouts.run.agent_attempter import AgentAttempter
from nemo_gym.rollouts.run.collector import Attempter
from nemo_gym.rollouts.run.control import ServeControl, StartControl
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.execution import RunExecution, time_now
from nemo_gym.rollouts.run.input_check import CheckedInput, check_input
from nemo_gym.rollouts.run.preflight import EnginesFound, check_servers
from nemo_gym.rollouts.run.progress import Display
from nemo_gym.rollouts.run.required_servers import find_required_servers, name_environment
from nemo_gym.rollouts.run.row_check import ask_servers, leave_out_unfit_rows, refuse_unfit_rows
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop, run_unless_stopped
from nemo_gym.rollouts.run.summary import (
    CollectSummary,
)
from nemo_gym.transport import Caller

if TYPE_CHECKING:
    from nemo_gym.rollouts.run.budgets import Budgets
    from nemo_gym.rollouts.run.durable_attempts import DurableAttempts
    from nemo_gym.rollouts.run.until import UntilRun

log = logging.getLogger(__name__)


async def collect(
    settings: CollectSettings,
    caller: Caller,
    gym: DiscoveredGym,
    *,
    stop: Stop | None = None,
    display: Display | None = None,
    attempter: Attempter | None = None,
    checked: CheckedInput | None = None,
    serve: ServeControl | None = None,
) -> CollectSummary:
    """Collect rollouts from the servers of `gym`.

    `stop` ends the run, `attempter` replaces the agents, `checked` is of `check_input`, `serve` lets others control it.
    Raises `ConfigError` or `GymError` before anything runs; a later error ends the run and is the summary's `stop`.
    """
    checked, servers, engines = await _check(settings, caller, gym, checked, stop := stop or Stop())
    identity = build_identity(checked.plan, checked.inspection, servers, gym.config, engines)
    journal, materialized, notes = await asyncio.to_thread(_open_files, settings, checked, identity, gym)
    inspection = checked.inspection
    control = StartControl(journal, settings.limits, clocks=gym.clocks(caller, servers), serve=serve)
    execution = RunExecution(
        journal,
        caller,
        gym,
        rollouts=inspection.rollouts,
        planned=_count_planned(inspection),
        control=control,
        stop=stop,
        servers=servers.keys(),
        materialized=materialized,
        invalid_rows=inspection.invalid,
        clusters=inspection.clusters,
        options=settings,
    )
    agents = attempter or await _build_attempter(settings, checked, execution)
    agents = await _make_durable(settings, execution, identity, agents)
    plan, agents = await _choose_plan(settings, checked, execution, agents)
    return await execution.run(plan, agents, display, lambda: [*inspection.notes, *notes, *control.notes])


def _count_planned(inspection: DatasetInspection) -> dict[str, Planned]:
    return {
        agent: Planned(tasks, inspection.rollouts_of[agent]) for agent, tasks in inspection.agents.items()
    }


async def _make_durable(
    settings: CollectSettings, execution: RunExecution, identity: dict[str, Any], agents: Attempter
) -> Attempter:
    """Return the attempts of the run: durable ones if it is. Raises `ConfigError`."""
    if settings.durability != "off" and isinstance(agents, AgentAttempter):
        execution.durable = await _begin_durable(settings, execution, identity, agents)
        return execution.durable
    if execution.journal.resumed and execution.journal.files.attempts.exists():
        await _refuse_interrupted(execution)
    return agents


async def _begin_durable(
    settings: CollectSettings, execution: RunExecution, identity: dict[str, Any], agents: AgentAttempter
) -> DurableAttempts:
    """Return the attempts of a durable run. Closes the files and raises `ConfigError` if it cannot be recorded."""
    from nemo_gym.rollouts.output.attempt_records import AttemptRecords  # most runs are not durable
    from nemo_gym.rollouts.run.durable_attempts import begin_durable

    journal, gym = execution.journal, execution.gym
    try:
        keeps_all = settings.keep_attempts == "all"
        open_records = partial(AttemptRecords.open, keeps_all=keeps_all)
        records = await asyncio.to_thread(open_records, journal.files, identity, journal.finished)
        return await begin_durable(agents, records, settings, execution.caller, execution.servers, gym.config)
    except BaseException as error:
        execution.close_files({"end": "broken", "error": str(error)})
        raise


async def _refuse_interrupted(execution: RunExecution) -> None:
    """Close the files and raise `ConfigError` if interrupted attempts have records, and this start is not durable."""
    from nemo_gym.rollouts.output.attempt_records import refuse_interrupted  # most runs are not durable

    try:
        journal = execution.journal
        await asyncio.to_thread(refuse_interrupted, journal.files, journal.finished)
    except ConfigError as error:
        execution.close_files({"end": "broken", "error": str(error)})
        raise


async def _choose_plan(
    settings: CollectSettings, checked: CheckedInput, execution: RunExecution, agents: Attempter
) -> tuple[Plan | UntilRun, Attempter]:
    """Return the rollouts to run, and the agents; the draws of a run with `until` watch theirs."""
    if settings.until is None:
        return _build_plan(settings, checked, execution.journal), agents
    draws = await asyncio.to_thread(_begin_draws, settings, checked, execution)
    return draws, draws.watched(agents)


async def _build_attempter(
    settings: CollectSettings, checked: CheckedInput, execution: RunExecution
) -> AgentAttempter:
    if settings.has_budget:
        execution.budgets = await _open_budgets(settings, checked, execution)
    timeout_s = execution.limits.rollout_timeout_s
    agents = AgentAttempter(
        execution.caller, timeout_s=timeout_s, budgets=execution.budgets, takes_lists=True
    )
    execution.on_tuned = agents.tune
    return agents


async def _open_budgets(settings: CollectSettings, checked: CheckedInput, execution: RunExecution) -> Budgets:
    """Return the budgets of the run, with what its earlier starts have spent."""
    from nemo_gym.rollouts.run.budgets import Budgets  # most runs have none
    from nemo_gym.rollouts.run.prices import list_model_servers

    agents, config = checked.inspection.agents, execution.gym.config
    servers = list_model_servers(agents, config, settings.prices)
    environments = {agent: name_environment(agent, config) for agent in agents}
    budgets = Budgets(settings, servers, execution.stop.drain, environments)
    if execution.journal.resumed:
        files = execution.journal.files
        await asyncio.to_thread(budgets.note_files, files.rows, files.failures)
    execution.counters.expenses = budgets
    return budgets


def _begin_draws(settings: CollectSettings, checked: CheckedInput, execution: RunExecution) -> UntilRun:
    """Return the draws of a run with `until`. Closes the files and raises `ConfigError` if they cannot go on."""
    from nemo_gym.rollouts.run.until import begin_draws  # most runs have no aim

    try:
        tasks = Plan(checked.plan, numbers=checked.inspection.numbers).read_tasks()
        execution.until = begin_draws(
            settings, list(tasks), execution.journal, execution.counters, execution.gym.config
        )
    except BaseException as error:
        execution.close_files({"end": "broken", "error": str(error)})
        raise
    execution.until.attach(execution.stop)
    return execution.until


def _build_plan(settings: CollectSettings, checked: CheckedInput, journal: Journal) -> Plan:
    return Plan(
        checked.plan,
        numbers=checked.inspection.numbers,
        finished=journal.finished,
        durations=read_durations(journal.files.rows) if settings.dispatch_longest_first else None,
    )


async def _check(
    settings: CollectSettings, caller: Caller, gym: DiscoveredGym, given: CheckedInput | None, stop: Stop
) -> tuple[CheckedInput, Mapping[str, Mapping[str, Any]], EnginesFound]:
    """Return, after all checks, the input, the configuration of the servers that take part, and their engines."""
    checked = await asyncio.to_thread(check_input, settings, gym.config) if given is None else given
    agents, tools = checked.inspection.agents, checked.inspection.tools
    servers = find_required_servers(agents, gym.config)
    engines = await check_servers(caller, agents, servers, tools=tools)
    if settings.skip_invalid_rows:
        checked = await run_unless_stopped(_leave_out_unfit_rows(checked, caller, servers), stop)
    else:
        unfit = refuse_unfit_rows(ask_servers(caller, checked.environments), checked.plan, servers)
        checked.inspection.environment_notes += await run_unless_stopped(unfit, stop)
    return checked, servers, engines


async def _leave_out_unfit_rows(
    checked: CheckedInput, caller: Caller, servers: Mapping[str, Mapping[str, Any]]
) -> CheckedInput:
    """Return the input without the rows that their environments cannot read. Raises `ConfigError` if none is left."""
    plan = await leave_out_unfit_rows(ask_servers(caller), checked.plan, servers)
    if not plan.unfit:
        return checked
    inspection = await asyncio.to_thread(inspect, plan)
    if not inspection.rollouts:
        inspection.refuse_faults(leaves_none=True)
    return CheckedInput(plan, inspection)


def _open_files(
    settings: CollectSettings,
    checked: CheckedInput,
    identity: dict[str, Any],
    gym: DiscoveredGym,
) -> tuple[Journal, MaterializedInputs | None, list[str]]:
    """Return the open files, and notes on the tasks. Those of a resumed run get the indices that they have in it."""
    inspection, files = checked.inspection, RunFiles.from_output(settings.output)
    notes: list[str] = []
    if settings.existing is Existing.RESUME:
        allowed = settings.allowed_changes
        inspection.numbering, notes = find_numbers(files, identity, checked.plan, allowed)
    journal = open_journal(
        files,
        identity,
        _describe_start(settings, inspection.rollouts, gym),
        is_planned=inspection.membership(),
        existing=settings.existing,
        allowed=settings.allowed_changes,
        tasks=pack_numbers(inspection.numbers),
        retried=settings.list_retried_classes(),
    )
    try:
        return journal, _open_materialized(settings, checked, journal), [*settings.input_notes, *notes]
    except BaseException as error:
        journal.close({"end": "broken", "error": str(error), "ended_at": time_now()})
        raise


def _describe_start(settings: CollectSettings, planned: int, gym: DiscoveredGym) -> dict[str, Any]:
    """Return what the manifest records of a start."""
    start = {"started_at": time_now(), "settings": settings.to_json(), "planned": planned}
    if gym.repository is not None:
        start["repository"] = gym.repository
    if gym.logs is not None:  # relative, so that both can be moved together
        start["logs"] = os.path.relpath(gym.logs, settings.output.parent)
    return start


def _open_materialized(
    settings: CollectSettings, checked: CheckedInput, journal: Journal
) -> MaterializedInputs | None:
    if not settings.write_materialized_inputs:
        return None
    if settings.until is not None:
        return MaterializedInputs.open_in_any_order(journal.files, ())
    numbers = checked.inspection.numbers
    whole = Plan(checked.plan.sort_by_identity(), numbers=numbers)
    if pack_numbers(numbers) is not None:
        return MaterializedInputs.open_in_any_order(journal.files, whole)
    is_reordered = settings.interleave_repeats or settings.dispatch_longest_first
    return MaterializedInputs.open(
        journal.files,
        whole,
        needed=AFTER_ALL if is_reordered else journal.finished.last(),
        changed=any(not change.is_of_maker for change in journal.changes),
    )
