"""The settings of a collection: its rows, their repeats, the output and the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from nemo_gym.failures import ConfigError
from nemo_gym.paths import candidates
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import JUDGE_INVALID, TOOLS_FAILED, Existing
from nemo_gym.rollouts.output.manifest import AllowedChanges
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rollouts.plan.routing import DEFAULT_SOURCE, Routing
from nemo_gym.rollouts.run.options import CollectOptions, RunLimits, UntilOptions
from nemo_gym.rollouts.run.required_servers import list_server_users, only_agent
from nemo_gym.rollouts.run.until_target import read_target

MOST_REPEATS = 1 << 20
"""The repeats of a task that a run with `until` may draw."""


class CollectSettings(CollectOptions):
    """The settings of one start of a run."""

    datasets: tuple[DatasetFile, ...]
    output: Path
    """`<stem>.jsonl`; the other files of the run are beside it."""
    existing: Existing = Existing.REFUSE
    limits: RunLimits = RunLimits()
    repeats_by_agent: dict[str, int] = Field(default_factory=dict)
    """Agent or source → rollouts of each row, instead of the datasets' numbers."""
    repeats_of_all: int = 1
    """The rollouts of each row that a user asked for; 1 for none. The numbers of the datasets may be their own."""
    track_id: str | None = None
    """The identity of the run in trackers, which stays the same when the run is resumed."""

    def model_post_init(self, _: object) -> None:
        """Raises `ConfigError` for an invalid output, or one that is an input."""
        named = [
            path for file in self.datasets for path in (file.path, file.prompt_config) if path is not None
        ]
        found = [place for path in named for place in candidates(path)]
        RunFiles.from_output(self.output).refuse_inputs([*named, *found])

    @property
    def allowed_changes(self) -> AllowedChanges:
        """The changes with which an earlier run in the output is resumed."""
        return AllowedChanges(
            self.allow_identity_change, self.add_tasks, self.mark_new_code, self.mark_new_engine
        )

    def list_retried_classes(self) -> list[str]:
        """Return the failure classes of the stored rows that are attempted again."""
        wanted = {JUDGE_INVALID: self.retry_invalid_judge_responses, TOOLS_FAILED: self.retry_tool_errors}
        return [failure_class for failure_class, is_wanted in wanted.items() if is_wanted]

    def plan(self, config: Mapping[str, Any]) -> PlanSettings:
        """Return the source of the plan. `config`: the configuration of the gym that runs it.

        Raises `ConfigError` if the folder of skills is not valid.
        """
        agent_map = dict(self.agent_map)
        if self.environment_server_name is not None:
            agent_map = {DEFAULT_SOURCE: self.environment_server_name}
        fan_out = dict(self.fan_out)
        if not fan_out and (pair := self._find_pair()) is not None:
            agent_map, fan_out = {DEFAULT_SOURCE: pair[0]}, {DEFAULT_SOURCE: list(pair)}
        return PlanSettings(
            datasets=self._planned_datasets(),
            limit=self.limit,
            overrides=self.responses_create_params,
            add_seed=self.num_repeats_add_seed,
            routing=Routing(
                agent_map,
                fan_out,
                self.repeats_by_agent,
                list_server_users(config),
                only_agent=only_agent(config),
            ),
            skills_ref=self._skills_ref(),
            interleave_repeats=self.interleave_repeats,
        )

    @property
    def repeats_of_a_draw(self) -> int:
        """Return the rollouts of a task in one draw of a run with `until` and `generalize`."""
        return max((file.num_repeats for file in self.datasets), default=1)

    def _find_pair(self) -> tuple[str, str] | None:
        """Return the agents that `until` tells apart; None without any. `check_input` reports a wrong aim."""
        try:
            target = read_target(self)
        except ConfigError:
            return None
        return target.pair if target is not None else None

    def _planned_datasets(self) -> tuple[DatasetFile, ...]:
        """Return the datasets; with `until` the draws decide the repeats, so that any number is planned."""
        if self.until is None:
            return self.datasets
        return tuple(replace(file, num_repeats=MOST_REPEATS) for file in self.datasets)

    def _skills_ref(self) -> dict[str, Any] | None:
        if self.skills is None:
            return None
        from nemo_gym.inputs.skills import load_skill_directory

        try:
            return load_skill_directory(self.skills.path).model_dump()
        except ValueError as error:
            raise ConfigError(
                str(error), code="skills_invalid", remedy="Check +skills.path; see docs/agents.md."
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Return the settings that the manifest records for a start."""
        tracked = {"track_id": self.track_id} if self.track_id else {}
        aim = {name: getattr(self, name) for name in UntilOptions.model_fields} if self.until else {}
        tagged = {"tags": list(self.tags)} if self.tags else {}
        return (
            tracked
            | aim
            | tagged
            | {
                "datasets": [str(file.path) for file in self.datasets],
                "num_samples_in_parallel": self.limits.in_parallel,
                "max_attempts": self.limits.max_attempts,
                "rollout_timeout_s": self.limits.rollout_timeout_s,
                "max_failed_fraction": self.max_failed_fraction,
                "max_masked_fraction": self.max_masked_fraction,
                "skip_invalid_rows": self.skip_invalid_rows,
            }
        )
