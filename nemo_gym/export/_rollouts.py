"""Rollouts as an export sees them: scored rows, in groups of one task.

A group's baseline is over all of its scored rollouts, whichever of them are then selected for the export; failed
attempts are in none, and neither are rollouts that are marked as not to be trained on. Rows stand in a file in the
order in which they finished, so a first pass counts the rows of each task and a second hands out a group when its last
row is there: what is in memory are the groups in flight.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from nemo_gym.export.report import LeftOut, Report, Unsuitable
from nemo_gym.failures import ConfigError, Outcome
from nemo_gym.metrics.estimators import sample_standard_deviation
from nemo_gym.metrics.records import finite_number, is_failed, is_masked, outcome_of
from nemo_gym.names import AGENT_REF_KEY, PARAMS_KEY, ROLLOUT_INDEX_KEY, TASK_INDEX_KEY
from nemo_gym.rollouts.plan.dataset import Line, locate, read_lines
from nemo_gym.rollouts.plan.identity import identity_at
from nemo_gym.tokens.records import CallRecord, PolicyVersion
from nemo_gym.tokens.rows import calls_of
from nemo_gym.tokens.segments import Segment, segments_of


@dataclass(frozen=True)
class ScoredRollout:
    """A scored row."""

    row: Mapping[str, Any]
    name: str
    """Where it stands: `<file>:<line>`."""
    task: str
    """The group it belongs to, within the export."""
    reward: float
    outcome: Outcome

    @property
    def repeat(self) -> int:
        """Which rollout of its task it is."""
        repeat = self.row.get(ROLLOUT_INDEX_KEY)
        return repeat if isinstance(repeat, int) else 0

    @property
    def environment(self) -> str:
        """The agent that ran it; empty where the row names none."""
        reference = self.row.get(AGENT_REF_KEY)
        return str(reference.get("name", "")) if isinstance(reference, Mapping) else ""

    @property
    def params(self) -> Mapping[str, Any]:
        """Its `responses_create_params`."""
        params = self.row.get(PARAMS_KEY)
        return params if isinstance(params, Mapping) else {}

    @property
    def task_number(self) -> int:
        """The task's place in its dataset; for rows of others, a number made of its prompt."""
        number = self.row.get(TASK_INDEX_KEY)
        return number if isinstance(number, int) else int.from_bytes(prompt_fingerprint(self.row)[:6])

    def read_segments(self) -> list[Segment]:
        """The token sequences to train on. Raises `Unsuitable` where there are none."""
        segments = segments_of(self.calls)
        if not segments:
            raise Unsuitable(LeftOut.NO_TOKENS)
        return segments

    @cached_property
    def calls(self) -> list[CallRecord]:
        """The records of its model calls, masked ones included."""
        return calls_of(self.row)

    @property
    def has_masked_calls(self) -> bool:
        """Whether a model call has no ids to train on."""
        return any(call.masked for call in self.calls)

    @property
    def policy_versions(self) -> list[PolicyVersion]:
        """The policy's versions that took part, in their order."""
        versions = [call.policy_version for call in self.calls if call.policy_version is not None]
        return list(dict.fromkeys(versions))

    @property
    def output_tokens(self) -> int | None:
        """How many tokens the policy wrote, by the engine's count; None where the row doesn't tell."""
        response = self.row.get("response")
        usage = response.get("usage") if isinstance(response, Mapping) else None
        counted = usage.get("output_tokens") if isinstance(usage, Mapping) else None
        if isinstance(counted, int):
            return counted
        sampled = [len(call.tokens.generated) for call in self.calls if call.tokens is not None]
        return sum(sampled) if sampled else None


@dataclass(slots=True)
class Group:
    """The rollouts of one task in one file."""

    task: str
    fingerprint: bytes
    """Names the task's prompt, in any file and on any machine."""
    members: list[ScoredRollout]
    """All that were scored and not masked, by their repeat."""
    selected: list[ScoredRollout]
    """Those of them that the export takes."""

    @property
    def has_equal_rewards(self) -> bool:
        """Whether the members' rewards differ by no more than rounding does."""
        rewards = [member.reward for member in self.members]
        return math.isclose(min(rewards), max(rewards), rel_tol=1e-9, abs_tol=1e-12)

    @property
    def mean(self) -> float:
        """The mean reward of the members."""
        return fmean(member.reward for member in self.members)

    @property
    def deviation(self) -> float:
        """The sample standard deviation of the members' rewards; 0 for fewer than two."""
        return sample_standard_deviation([member.reward for member in self.members]) or 0.0


def prompt_fingerprint(row: Mapping[str, Any]) -> bytes:
    """16 bytes that name what the policy is asked: instructions, input and tools."""
    params = row.get(PARAMS_KEY)
    params = params if isinstance(params, Mapping) else {}
    prompt = [params.get("instructions"), params.get("input"), params.get("tools") or None]
    return hashlib.blake2b(orjson.dumps(prompt, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


class RolloutFiles:
    """The input of an export."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises `ConfigError` for a file that isn't there, or named twice."""
        self.paths = [locate(path) for path in paths]
        if len(set(self.paths)) < len(self.paths):
            raise ConfigError(
                "a file is given twice in +input", code="duplicate_input", remedy="Name each file once."
            )
        self._rows: Counter[str] | None = None

    def _count(self) -> Counter[str]:
        """How many rows each task has."""
        if self._rows is None:
            self._rows = Counter(task for _, _, task in self._lines() if task is not None)
        return self._rows

    @property
    def largest_group(self) -> int:
        """The number of rows of the task that has the most."""
        return max(self._count().values(), default=0)

    def groups(self, report: Report) -> Iterator[Group]:
        """Every task that has a rollout to train on, with all of them.

        Raises `ConfigError` for a file that is damaged.
        """
        missing = self._count().copy()
        opened: dict[str, list[ScoredRollout]] = {}
        for path, line, task in self._lines():
            report.read += 1
            name = f"{path}:{line.number}"
            if task is None:
                report.leave_out(name, LeftOut.UNREADABLE)
                continue
            rollout = _scored(_parsed(line, path), name, task, report)
            if rollout is not None:
                opened.setdefault(task, []).append(rollout)
            missing[task] -= 1
            if not missing[task] and task in opened:
                yield _group_of(task, opened.pop(task))

    def _lines(self) -> Iterator[tuple[Path, Line, str | None]]:
        """Every line with the task that it belongs to; None for a last line that was cut off."""
        for number, path in enumerate(self.paths):
            prefix = f"{number}:" if len(self.paths) > 1 else ""
            for line in read_lines(path):
                task = _task_of(line, path)
                yield path, line, None if task is None else prefix + task


def _is_whole(line: Line) -> bool:
    return line.content.endswith(b"\n")


def _task_of(line: Line, path: Path) -> str | None:
    """The task that a row belongs to: its number, or for rows without one its prompt."""
    identity = identity_at(line.content)
    if identity is not None and _is_whole(line):
        return str(identity.task)
    try:
        row = _parsed(line, path)
    except ConfigError:
        if not _is_whole(line):
            return None
        raise
    number = row.get(TASK_INDEX_KEY)
    return str(number) if isinstance(number, int) else prompt_fingerprint(row).hex()


def _parsed(line: Line, path: Path) -> dict[str, Any]:
    """The row on a line. Raises `ConfigError` where there is none."""
    try:
        row = orjson.loads(line.content)
    except orjson.JSONDecodeError as error:
        raise _not_a_row(path, line, f"is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise _not_a_row(path, line, "is not a JSON object")
    return row


def _not_a_row(path: Path, line: Line, problem: str) -> ConfigError:
    return ConfigError(
        f"{path}:{line.number}: the line {problem}",
        code="damaged_input",
        remedy="+input names a file of scored rows, as ng_collect_rollouts writes it.",
    )


def _scored(row: dict[str, Any], name: str, task: str, report: Report) -> ScoredRollout | None:
    reward = finite_number(row.get("reward"))
    if is_failed(row):
        reason = LeftOut.FAILED
    elif reward is None:
        reason = LeftOut.UNSCORED
    elif is_masked(row):
        reason = LeftOut.MASKED
    else:
        return ScoredRollout(row, name, task, reward, Outcome(outcome_of(row)))
    report.leave_out(name, reason)
    return None


def _group_of(task: str, members: list[ScoredRollout]) -> Group:
    members.sort(key=lambda member: member.repeat)
    return Group(task, prompt_fingerprint(members[0].row), members, list(members))
