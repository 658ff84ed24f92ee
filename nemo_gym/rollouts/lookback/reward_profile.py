"""Reward statistics of each task, for choosing the tasks of a curriculum.

A task that several agents attempt has a profile of each: a task that is hard for one may be easy for another. A profile
row is the task row as sent to the agent, with these fields:

    avg_reward, std_reward       over its scored rollouts; sample standard deviation, 0 for one
    min_reward, max_reward
    total_samples                scored rollouts
    failed_samples               rollouts without a score
    pass_rate                    the share of scored rollouts with at least `pass_threshold`
    pass_rate_passed, pass_rate_total, pass_threshold
    avg_output_tokens            if the responses have a usage

A task without a scored rollout has `total_samples` 0 and null for every reward statistic; no range includes it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.metrics import mean, read_measurements, sample_standard_deviation
from nemo_gym.rollouts.lookback.account import RunAccount
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rows.compose import drop_reserved, number_task, select_request
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.numbering import GroupId, read_group
from nemo_gym.rows.verdict import read_reward

_TOKENS = "output_tokens"


@dataclass(slots=True)
class TaskProfile:
    """The rollouts of one task by one agent."""

    first: RolloutId
    """A rollout of the task, to find its task row."""
    rewards: array[float] = field(default_factory=lambda: array("d"))
    output_tokens: array[float] = field(default_factory=lambda: array("d"))
    failed: int = 0

    def pass_rate(self, threshold: float) -> float | None:
        """The share of passed rollouts; None without a scored rollout."""
        return self.count_passed(threshold) / len(self.rewards) if self.rewards else None

    def count_passed(self, threshold: float) -> int:
        return sum(1 for reward in self.rewards if reward >= threshold)

    def to_json(self, threshold: float) -> dict[str, Any]:
        rewards = self.rewards
        return {
            "avg_reward": mean(rewards) if rewards else None,
            "std_reward": (sample_standard_deviation(rewards) or 0.0) if rewards else None,
            "min_reward": min(rewards, default=None),
            "max_reward": max(rewards, default=None),
            "total_samples": len(rewards),
            "failed_samples": self.failed,
            "pass_rate": self.pass_rate(threshold),
            "pass_rate_passed": self.count_passed(threshold),
            "pass_rate_total": len(rewards),
            "pass_threshold": threshold,
            "avg_output_tokens": mean(self.output_tokens) if self.output_tokens else None,
        }


@dataclass(frozen=True, slots=True)
class PassRates:
    """The range of pass rates to keep; both bounds are inclusive."""

    low: float = 0.0
    high: float = 1.0

    def keeps(self, rate: float | None) -> bool:
        if rate is None:
            return self.low <= 0.0 and self.high >= 1.0
        return self.low <= rate <= self.high


@dataclass(slots=True)
class ProfileSummary:
    """Counts of profiles by their pass rates. A task that several agents attempt has several."""

    tasks: int = 0
    written: int = 0
    never_passed: int = 0
    always_passed: int = 0
    sometimes_passed: int = 0
    """Tasks whose rollouts differ, so that a policy can learn from them."""
    unscored: int = 0
    further: int = 0
    """Profiles beyond the first of their task."""
    account: RunAccount | None = field(default=None, compare=False)
    """The account of the run."""

    def to_json(self) -> dict[str, Any]:
        """Return the counts and the account as JSON."""
        counts = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "account"}
        return counts | ({"run": self.account.to_json()} if self.account is not None else {})

    def note(self, rate: float | None) -> None:
        if rate is None:
            self.unscored += 1
        elif rate == 0.0:
            self.never_passed += 1
        elif rate == 1.0:
            self.always_passed += 1
        else:
            self.sometimes_passed += 1


def profile_tasks(run: StoredRun, account: RunAccount | None = None) -> dict[GroupId, TaskProfile]:
    """Return the profiles of a run's tasks by task and agent, and add its rows to `account`."""
    profiles: dict[GroupId, TaskProfile] = {}
    for identity in run.scored:
        row = run.scored.row(identity)
        if account is not None:
            account.add(row)
        profile = profiles.setdefault(read_group(row, identity), TaskProfile(identity))
        reward, measurements = read_reward(row), read_measurements(row)
        if reward is None:
            profile.failed += 1
            continue
        profile.rewards.append(reward)
        if _TOKENS in measurements:
            profile.output_tokens.append(measurements[_TOKENS])
    for identity in run.list_failed():
        group = read_group(run.failures.row(identity), identity)
        profiles.setdefault(group, TaskProfile(identity)).failed += 1
    return dict(sorted(profiles.items()))


def write_profile(
    run: StoredRun, output: Path, *, pass_threshold: float = 1.0, rates: PassRates | None = None
) -> ProfileSummary:
    """Write a profile row for each task of `run` within `rates`, ordered by task and agent.

    Raises `ConfigError` if `output` is a file of `run`.
    """
    refuse_inputs([output], run.files.present())
    rates = rates or PassRates()
    account = run.open_account()
    summary = ProfileSummary(account=account)
    profiles = profile_tasks(run, account)
    summary.tasks = len({group.task for group in profiles})
    summary.further = len(profiles) - summary.tasks
    with replacing(output) as file:
        for profile in profiles.values():
            rate = profile.pass_rate(pass_threshold)
            summary.note(rate)
            if rates.keeps(rate):
                row = {**_task_row(run, profile.first), **profile.to_json(pass_threshold)}
                file.write(orjson.dumps(row) + b"\n")
                summary.written += 1
    return summary


def _task_row(run: StoredRun, identity: RolloutId) -> AnyRow:
    """Return the task row as sent, without rollout fields; if it is missing, the fields that every row keeps."""
    if identity in run.tasks:
        row = run.tasks.row(identity)
        return number_task(drop_reserved(row), identity.task)
    row = (run.scored if identity in run.scored else run.failures).row(identity)
    return number_task(select_request(row), identity.task)
