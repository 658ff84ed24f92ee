"""The input of an export: scored rows, grouped by task and agent.

A group's baseline is over all of its scored rollouts, including those that filters reject; failed attempts and masked
rollouts are excluded. Rows are in the order in which they finished. A first pass counts the rows of each task, and a
second yields the groups of a task when its last row was read, so only incomplete tasks are in memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nemo_gym.export.report import LeftOut, Report, Unsuitable
from nemo_gym.failures import ConfigError, Outcome
from nemo_gym.metrics.estimators import mean, sample_standard_deviation
from nemo_gym.rollouts.lookback.account import RunAccount
from nemo_gym.rollouts.output.files import RunFiles, find_ending
from nemo_gym.rollouts.output.finished import RowsOnce, is_torn
from nemo_gym.rollouts.output.inputs import refuse_repeats
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import Line, locate, read_lines
from nemo_gym.rollouts.plan.task_content import task_digest
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_at, identity_in, read_repeat, read_task_index
from nemo_gym.rows.numbering import RowIdentities, prompt_fingerprint
from nemo_gym.rows.parts import read_agent, read_fork_group, read_params, read_task_origin, read_usage
from nemo_gym.rows.verdict import is_failed, is_masked, may_train, read_outcome, read_reward
from nemo_gym.tokens.records import CallRecord, PolicyVersion
from nemo_gym.tokens.segments import Segment, build_segments


@dataclass(frozen=True)
class ScoredRollout:
    """A scored row."""

    row: AnyRow
    name: str
    """`<file>:<line>`."""
    task: str
    """Its task, within the export."""
    reward: float
    outcome: Outcome

    @property
    def file(self) -> str:
        """The file of its row."""
        return self.name.rpartition(":")[0]

    @property
    def repeat(self) -> int:
        """The number of the rollout within its task."""
        return read_repeat(self.row)

    @property
    def fork_group(self) -> str:
        """The group of a fork: its parent and turn; empty for another rollout."""
        return read_fork_group(self.row)

    @property
    def environment(self) -> str:
        """The agent that ran it; empty if the row names none."""
        return read_agent(self.row) or ""

    @property
    def params(self) -> Mapping[str, Any]:
        """Its `responses_create_params`."""
        return read_params(self.row)

    @property
    def origin(self) -> dict[str, str]:
        """The digest, source, licence and split of its task, and more; empty for a task that is no folder."""
        return read_task_origin(self.row)

    @property
    def origin_column(self) -> dict[str, dict[str, str]]:
        """Its origin as the column of a row; no column without one."""
        return {"task_origin": self.origin} if self.origin else {}

    @property
    def task_number(self) -> int:
        """The task's index in its dataset; for rows without one, a number derived from the prompt."""
        number = read_task_index(self.row)
        return number if number is not None else int.from_bytes(prompt_fingerprint(self.row)[:6])

    def read_segments(self) -> list[Segment]:
        """Return the token sequences to train on. Raises `Unsuitable` if there are none."""
        segments = build_segments(self.calls)
        if not segments:
            raise Unsuitable(LeftOut.NO_TOKENS)
        return segments

    @cached_property
    def calls(self) -> list[CallRecord]:
        """The records of its model calls, masked ones included."""
        return read_calls(self.row)

    @property
    def policy_versions(self) -> list[PolicyVersion]:
        """The versions of the policy that made its calls, in order."""
        versions = [call.policy_version for call in self.calls if call.policy_version is not None]
        return list(dict.fromkeys(versions))

    @property
    def output_tokens(self) -> int | None:
        """The number of tokens that the policy wrote, counted by the engine; None if the row lacks it."""
        counted = read_usage(self.row).get("output_tokens")
        if isinstance(counted, int):
            return counted
        sampled = [len(call.tokens.generated) for call in self.calls if call.tokens is not None]
        return sum(sampled) if sampled else None


@dataclass(slots=True)
class Group:
    """The rollouts of one task by one agent, in one file unless the export joins its inputs.

    The forks of one parent at one turn are a group of their own: they begin alike.
    """

    task: str
    fingerprint: bytes
    """Identifies the task's prompt in any file and on any machine."""
    members: list[ScoredRollout]
    """The rollouts that are scored and, for a trainer, not masked; ordered by repeat."""
    selected: list[ScoredRollout]
    """The members that passed the filters."""
    agent: str | None = None
    """The agent, if others have rollouts of the task too."""
    fork_group: str = ""

    @property
    def name(self) -> str:
        """The name of the group, within the export."""
        return ":".join(filter(None, (self.task, self.fork_group, self.agent)))

    @property
    def has_equal_rewards(self) -> bool:
        """Return whether the members' rewards are equal up to rounding."""
        rewards = [member.reward for member in self.members]
        return math.isclose(min(rewards), max(rewards), rel_tol=1e-9, abs_tol=1e-12)

    @property
    def mean(self) -> float:
        """The mean reward of the members."""
        return mean([member.reward for member in self.members])

    @property
    def deviation(self) -> float:
        """The sample standard deviation of the members' rewards; 0 for fewer than two."""
        return sample_standard_deviation([member.reward for member in self.members]) or 0.0


class RolloutFiles:
    """The input of an export."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises `ConfigError` for a file that does not exist or is named twice."""
        self.paths = [locate(path) for path in paths]
        refuse_repeats(self.paths)
        self._shared: SharedTasks | None = None
        self.accounts: list[RunAccount] = []
        """The accounts of the runs that the files belong to, complete after `groups`."""

    def join(self) -> None:
        """Make one group of a task that several files have. Raises `ConfigError` for a file without task rows."""
        self._shared = SharedTasks(self.paths)

    @cached_property
    def _rows(self) -> Counter[str]:
        """The number of rows of each task."""
        return Counter(task for _, _, task, _ in self._lines() if task is not None)

    def count_largest_group(self) -> int:
        """Return the largest number of rows of a task by one agent."""
        sizes = Counter(
            (task, read_agent(row), read_fork_group(row))
            for path, line, task, _ in self._lines()
            if task is not None
            for row in [_parse(line, path)]
        )
        return max(sizes.values(), default=0)

    def groups(
        self, report: Report, *, joins_agents: bool = False, for_training: bool = True
    ) -> Iterator[Group]:
        """Yield every group with a scored rollout, with all of them; `for_training`: those that may be trained on.

        `joins_agents`: the rollouts of all agents at a task are one group. Raises `ConfigError` for a file that is
        damaged or has two scored rows of a rollout.
        """
        missing = self._rows.copy()
        accounts = {
            path: RunAccount.open(RunFiles.from_output(path)) for path in self.paths if find_ending(path)
        }
        self.accounts = [*accounts.values()]
        opened: dict[str, list[ScoredRollout]] = {}
        once = RowsOnce()
        for path, line, task, identity in self._lines():
            report.read += 1
            name = f"{path}:{line.number}"
            if task is None or identity is None:
                report.leave_out(name, LeftOut.UNREADABLE)
                continue
            row = _parse(line, path)
            if path in accounts:
                accounts[path].add(row)
            rollout = _read_scored(row, name, task, report, for_training=for_training)
            if rollout is not None:
                once.add(identity, path, line.number)
                opened.setdefault(task, []).append(rollout)
            missing[task] -= 1
            if not missing[task] and task in opened:
                yield from _build_groups(task, opened.pop(task), joins_agents=joins_agents)

    def _lines(self) -> Iterator[tuple[Path, Line, str | None, RolloutId | None]]:
        """Yield every line with its task and its identity; None for an incomplete last line."""
        for number, path in enumerate(self.paths):
            prefix = f"{number}:" if len(self.paths) > 1 else ""
            identities = RowIdentities()
            for line in read_lines(path):
                if is_torn(line.content):
                    yield path, line, None, None
                    continue
                identity = _identify(line, path, identities)
                task = str(identity.task)
                task = self._shared.key(path, task, line.number) if self._shared else prefix + task
                yield path, line, task, identity


def _identify(line: Line, path: Path, identities: RowIdentities) -> RolloutId:
    place = f"{path}:{line.number}"
    identity = identity_at(line.content, place)
    return (
        identities.identify(_parse(line, path), place)
        if identity is None
        else identities.note(identity, place)
    )


def _parse(line: Line, path: Path) -> AnyRow:
    """Return the row of a line. Raises `ConfigError` if it is not a JSON object."""
    return read_object(
        line.content,
        f"{path}:{line.number}",
        code="damaged_input",
        remedy="+input must name a file of scored rows from gym eval run (ng_collect_rollouts).",
    )


def _read_scored(
    row: AnyRow, name: str, task: str, report: Report, *, for_training: bool
) -> ScoredRollout | None:
    reward = read_reward(row)
    if is_failed(row):
        reason = LeftOut.FAILED
    elif reward is None:
        reason = LeftOut.UNSCORED
    elif for_training and is_masked(row):
        reason = LeftOut.MASKED
    elif for_training and not may_train(row):
        reason = LeftOut.FOREIGN
    else:
        return ScoredRollout(row, name, task, reward, read_outcome(row))
    report.leave_out(name, reason)
    return None


def _build_groups(task: str, rollouts: list[ScoredRollout], *, joins_agents: bool) -> Iterator[Group]:
    rollouts.sort(key=lambda rollout: rollout.repeat)
    by_group: dict[tuple[str, str], list[ScoredRollout]] = {}
    for rollout in rollouts:
        key = "" if joins_agents else rollout.environment, rollout.fork_group
        by_group.setdefault(key, []).append(rollout)
    agents = {agent for agent, _ in by_group}
    for (agent, fork_group), members in sorted(by_group.items()):
        fingerprint = prompt_fingerprint(members[0].row)
        named = agent if len(agents) > 1 else None
        yield Group(task, fingerprint, members, list(members), named, fork_group)


# --- Tasks that several runs share ------------------------------------------------------------------------------------
# A task's number is only its place in the dataset of its run. Two runs have the same task if their task rows are
# equal: the input and all fields of the environment, such as the expected answer. The agent, the model and the
# sampling may differ.


_REMEDY = "Without +options.across_runs=true, each input is exported by itself."


class SharedTasks:
    """The tasks of several runs."""

    def __init__(self, runs: Sequence[Path]) -> None:
        """`runs`: files of scored rows. Raises `ConfigError` for a run without its task rows."""
        self._keys = {run: _read_keys(run) for run in runs}

    def key(self, run: Path, task: str, line: int) -> str:
        """Return the key in all runs of a task, by its number in `run`. Raises `ConfigError` if it has none."""
        if task not in self._keys[run]:
            raise ConfigError(
                f"{run}:{line}: its task is not in {RunFiles.from_output(run).materialized_inputs}",
                code="unknown_task",
                remedy=_REMEDY,
            )
        return self._keys[run][task]


def _read_keys(run: Path) -> dict[str, str]:
    """Return a key for each task by its number: its digest, and its place among equal tasks of the run."""
    path = RunFiles.from_output(run).materialized_inputs
    if not holds_text(path):
        raise ConfigError(
            f"{run} has no task rows beside it: there is no {path}", code="no_task_rows", remedy=_REMEDY
        )
    digests: dict[int, str] = {}
    for line in read_lines(path):
        identity = identity_at(line.content, f"{path}:{line.number}")
        if identity is not None and identity.task in digests:
            continue
        place = f"{path}:{line.number}"
        row = read_object(line.content, place, code="damaged_input", remedy=_REMEDY)
        if (identity := identity_in(row)) is None:
            message = f"{place}: the task row has no `_ng_task_index`"
            raise ConfigError(message, code="damaged_input", remedy=_REMEDY)
        digests[identity.task] = task_digest(row)
    seen: Counter[str] = Counter()
    keys = {}
    for task in sorted(digests):
        keys[str(task)] = f"{digests[task]}:{seen[digests[task]]}"
        seen[digests[task]] += 1
    return keys
