"""The checks of a collection's input that need no running server: output, rows and agents.

Commands that start servers make them first, so that a mistake ends them at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from nemo_gym.config.problems import ConfigErrors, InputChecks, Location, Problem
from nemo_gym.config.pydantic_problems import find_faults
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing, compare_with_manifest, refuse_existing
from nemo_gym.rollouts.output.manifest import Manifest, build_identity
from nemo_gym.rollouts.output.task_matching import find_numbers
from nemo_gym.rollouts.plan.inspection import DatasetInspection, inspect
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rollouts.plan.routing import DEFAULT_SOURCE
from nemo_gym.rollouts.run.required_servers import find_required_servers, refuse_same_agents, require_agents
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.until_target import read_target
from nemo_gym.rows.keys import PARAMS_KEY

log = logging.getLogger(__name__)

_UNKNOWN = "(unknown)"
"""The agent of rows whose agents a wrong aim does not tell."""


class CheckedInput(NamedTuple):
    """The source of a plan, and its datasets."""

    plan: PlanSettings
    inspection: DatasetInspection
    environments: frozenset[str] = frozenset()
    """Those that have checked their rows."""


def check_input(
    settings: CollectSettings,
    config: Mapping[str, Any] | ConfigError,
    find_elsewhere: Callable[[str], str | None] = lambda agent: None,
    check_rows: Callable[[PlanSettings], list[str]] = lambda plan: [],
) -> CheckedInput:
    """Return plan and datasets after all checks. Raises `ConfigError` with all problems.

    `config` is the configuration of the gym, or the error for which it is unknown: then its agents are unknown too.
    `find_elsewhere`: as for `require_agents`. `check_rows` raises the faults that environments find in rows, and
    returns their notes.
    """
    checks = InputChecks()
    plan = PlanSettings(datasets=settings.datasets)
    inspection = DatasetInspection()
    with checks.check():
        _check_overrides(settings.responses_create_params)
    with checks.check():
        refuse_existing(RunFiles.from_output(settings.output), settings.existing)
    with checks.check():
        read_target(settings)
    with checks.check():
        plan = _build_plan(settings, {} if isinstance(config, ConfigError) else config)
        inspection = inspect(plan)
        if not settings.skip_invalid_rows or not inspection.rollouts:
            inspection.refuse_faults(leaves_none=not inspection.rollouts)
    with checks.check():
        if inspection.rollouts and not settings.skip_invalid_rows:
            inspection.environment_notes += check_rows(plan)
    with checks.check():
        _refuse_results(inspection.results)
    with checks.check():
        _check_aim(settings, plan, inspection, {} if isinstance(config, ConfigError) else config)
    with checks.check():
        _check_agents(settings, inspection, config, find_elsewhere)
    checks.raise_if_any()
    for note in inspection.notes:
        log.warning("%s", note)
    return CheckedInput(plan, inspection)


def _check_agents(
    settings: CollectSettings,
    inspection: DatasetInspection,
    config: Mapping[str, Any] | ConfigError,
    find_elsewhere: Callable[[str], str | None],
) -> None:
    """Raise `ConfigError` for an agent that is unknown, or that a budget has no prices for."""
    if isinstance(config, ConfigError):
        raise config
    require_agents(_list_agents(settings, inspection), config, find_elsewhere, inspection.first_rows)
    if settings.has_budget:
        from nemo_gym.rollouts.run.prices import list_model_servers, require_prices  # most runs have none

        require_prices(settings, list_model_servers(inspection.agents, config, settings.prices))


def _list_agents(settings: CollectSettings, inspection: DatasetInspection) -> set[str]:
    """Return the agents that rows or settings name."""
    named = {each.agent_name for each in settings.datasets if each.agent_name is not None}
    return (inspection.agents.keys() | named) - {_UNKNOWN}


def refuse_other_run(settings: CollectSettings, checked: CheckedInput, config: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if the run to resume has another identity than `config`; its engines are not asked.

    `config` has the code of its servers (`names.CODE_KEY`), as that of a running gym does.
    """
    files = RunFiles.from_output(settings.output)
    if settings.existing is not Existing.RESUME or not files.holds_results():
        return
    servers = find_required_servers(checked.inspection.agents, config)
    identity = build_identity(checked.plan, checked.inspection, servers, config)
    find_numbers(files, identity, checked.plan, settings.allowed_changes)
    compare_with_manifest(files, identity, settings.allowed_changes)


def _build_plan(settings: CollectSettings, config: Mapping[str, Any]) -> PlanSettings:
    """Return the source of the plan. If the aim is wrong, the agents that it should name are those of no row."""
    plan = settings.plan(config)
    try:
        read_target(settings)
    except ConfigError:
        return replace(plan, routing=replace(plan.routing, agent_map={DEFAULT_SOURCE: _UNKNOWN}))
    return plan


def _check_aim(
    settings: CollectSettings, plan: PlanSettings, inspection: DatasetInspection, config: Mapping[str, Any]
) -> None:
    """Raise `ConfigError` if the aim of a run contradicts other keys or cannot be reached."""
    try:
        target = read_target(settings)
    except ConfigError:  # has been reported
        return
    if target is None:
        return
    contradictions = {
        "+count_missing_rollouts_as_zero=true": settings.count_missing_rollouts_as_zero,
        "+dispatch_longest_first=true": settings.dispatch_longest_first,
        "+interleave_repeats=true": settings.interleave_repeats,
        "+num_repeats by agent": bool(settings.repeats_by_agent),
        f"+num_repeats={settings.repeats_of_all} (gym: -n)": settings.repeats_of_all > 1
        and not target.generalizes,
    }
    if given := [key for key, is_given in contradictions.items() if is_given]:
        raise ConfigError(
            f"+until decides which task is attempted when and how often, so it excludes {' and '.join(given)}",
            code="contradiction",
            remedy="Leave out one of them.",
        )
    if target.pair is not None:
        refuse_same_agents(*target.pair, config)
    if inspection.rollouts:
        from nemo_gym.rollouts.run.until_reach import refuse_unreachable  # most runs have no aim

        refuse_unreachable(target, plan, settings.repeats_of_a_draw)


def _refuse_results(where: Location | None) -> None:
    """Raise `ConfigError` for a row that is the result of an attempt: each would become a task of its own."""
    if where is None:
        return
    tasks = _find_tasks_of(Path(where.source))
    raise ConfigError(
        f"{where} is the result of an attempt, and no task: each rollout of a task would become a task of its own",
        code="results_as_input",
        remedy=f"The tasks of that run are in {tasks}. Its missing rollouts are attempted by its own command with "
        "+resume_from_cache=true (gym: --resume), and its answers are verified again by gym eval reverify.",
    )


def _find_tasks_of(results: Path) -> str:
    """Return the datasets of a run, as its manifest names them."""
    with suppress(ConfigError):
        manifest = Manifest.read(RunFiles.from_existing(results).manifest)
        datasets = (
            manifest.starts[-1].get("settings", {}).get("datasets") if manifest and manifest.starts else None
        )
        if datasets:
            return ", ".join(map(str, datasets))
    return "the file that was its +input_jsonl_fpath (gym: -i)"


def _check_overrides(params: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for values of the wrong type. Parameters that no Responses request has are an agent's."""
    if not params:
        return
    from nemo_gym.responses.schemas import ResponseCreateParams  # 35 ms, and most runs override nothing

    known = {name: value for name, value in params.items() if name in ResponseCreateParams.model_fields}
    try:
        ResponseCreateParams.model_validate({"input": "", **known})
    except ValidationError as error:
        faults = find_faults(error, ResponseCreateParams, known, (f"+{PARAMS_KEY}",))
        raise ConfigErrors([Problem(None, fault.message, fault.remedy) for fault in faults]) from error
