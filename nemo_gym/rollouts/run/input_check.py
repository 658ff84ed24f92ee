"""The checks of a collection's input that need no running server: output, rows and agents.

Commands that start servers make them first, so that a mistake ends them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from nemo_gym.config.problems import ConfigErrors, InputChecks, Problem
from nemo_gym.config.pydantic_problems import find_faults
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import refuse_existing
from nemo_gym.rollouts.plan.inspection import DatasetInspection, inspect
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rollouts.run.required_servers import require_agents
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.until_target import read_target
from nemo_gym.rows.keys import PARAMS_KEY


class CheckedInput(NamedTuple):
    """The source of a plan, and its datasets."""

    plan: PlanSettings
    inspection: DatasetInspection


def check_input(
    settings: CollectSettings,
    config: Mapping[str, Any] | ConfigError,
    find_elsewhere: Callable[[str], str | None] = lambda agent: None,
) -> CheckedInput:
    """Return plan and datasets after all checks. Raises `ConfigError` with all problems.

    `config` is the configuration of the gym, or the error for which it is unknown: then its agents are unknown too.
    `find_elsewhere`: as for `require_agents`.
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
        plan = settings.plan({} if isinstance(config, ConfigError) else config)
        inspection = inspect(plan)
        if not settings.skip_invalid_rows or not inspection.rollouts:
            inspection.refuse_faults()
    with checks.check():
        _check_aim(settings, plan, inspection)
    with checks.check():
        if isinstance(config, ConfigError):
            raise config
        require_agents(inspection.agents, config, find_elsewhere)
        if settings.has_budget:
            from nemo_gym.rollouts.run.prices import list_model_servers, require_prices  # most runs have none

            require_prices(settings, list_model_servers(inspection.agents, config, settings.prices))
    checks.raise_if_any()
    return CheckedInput(plan, inspection)


def _check_aim(settings: CollectSettings, plan: PlanSettings, inspection: DatasetInspection) -> None:
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
    }
    if given := [key for key, is_given in contradictions.items() if is_given]:
        raise ConfigError(
            f"+until decides which task is attempted when and how often, so it excludes {' and '.join(given)}",
            code="contradiction",
            remedy="Leave out one of them.",
        )
    if inspection.rollouts:
        from nemo_gym.rollouts.run.until_reach import refuse_unreachable  # most runs have no aim

        refuse_unreachable(target, plan, settings.repeats_of_a_draw)


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
