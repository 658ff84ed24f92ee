"""The scores of a stored run by environment, task and model: what comparisons of many runs read.

An environment is an agent of a run. The model is that of the run's policy; runs of the same model are told apart by
their names. Tasks are recognized by their content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import read_record
from nemo_gym.rollouts.lookback.comparison import TaskKeys, task_title
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.lookback.task_clusters import (
    AgentTask,
    TaskKey,
    describe_uneven,
    find_uneven,
    join_copies,
)
from nemo_gym.rollouts.output.files import RunFiles, find_stem
from nemo_gym.rollouts.output.inputs import refuse_repeats
from nemo_gym.rollouts.output.manifest import Manifest, digest
from nemo_gym.rollouts.output.run_facts import RunFacts, read_facts
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rows.compose import ensure_identity
from nemo_gym.rows.keys import REWARD_KEY
from nemo_gym.rows.parts import read_usage

DEFAULT_SCORE = REWARD_KEY
_DIGITS = 12


@dataclass(slots=True)
class ScoredTask:
    """A task of one environment in one run."""

    index: int
    title: str
    scores: list[float] = field(default_factory=list)

    def join(self, other: ScoredTask) -> ScoredTask:
        """Return the scores of both of two equal tasks."""
        return replace(self, scores=[*self.scores, *other.scores])


@dataclass(slots=True)
class ScoreTable:
    """The scores of one run."""

    path: Path
    label: str
    """The model, or the run's name."""
    identity: str | None
    """The digest of the run's identity; None without a manifest."""
    environments: dict[str, dict[TaskKey, ScoredTask]]
    output_tokens: float = 0.0
    rollouts: int = 0
    notes: list[str] = field(default_factory=list)
    """The sentences of the run's account: rows that lack, several codes, an estimate that is no mean of the rows."""
    unscored: int = 0
    """Tasks that the run plans and that have no score; 0 without its task rows."""
    whole_tasks: bool = True
    """Whether all fields of a task identify it, not its input alone."""

    @property
    def tasks(self) -> set[TaskKey]:
        """Return the tasks, each once, whatever the number of its agents."""
        return {key for tasks in self.environments.values() for key in tasks}

    @property
    def shares_tasks(self) -> bool:
        """Return whether several agents attempt a task."""
        return sum(map(len, self.environments.values())) > len(self.tasks)

    @property
    def tokens_per_rollout(self) -> float | None:
        """Return the mean number of output tokens; None if they are unknown."""
        return self.output_tokens / self.rollouts if self.output_tokens else None

    def list_tasks(self) -> dict[AgentTask, ScoredTask]:
        """Return the tasks of all agents."""
        return {(name, key): task for name, tasks in self.environments.items() for key, task in tasks.items()}

    def join_equal_tasks(self, contents: set[tuple[str, str]] | None = None) -> ScoreTable:
        """Return the table with equal tasks as one, whose scores are those of all of them.

        `contents`: the agents and contents of those tasks; None for all.
        """
        tasks = self.list_tasks()
        joined: dict[str, dict[TaskKey, ScoredTask]] = {}
        chosen = {(name, content) for name, (content, _) in tasks} if contents is None else contents
        for (name, key), task in join_copies(tasks, chosen).items():
            joined.setdefault(name, {})[key] = task
        return replace(self, environments=joined)

    def list_samples(self) -> list[dict[tuple[str, TaskKey], list[float]]]:
        """Return the scores of the tasks of which a spread can be measured together.

        Those of several environments are one sample of tasks. Agents of the same tasks are a sample each: their means
        differ by more than their tasks.
        """
        samples: list[dict[tuple[str, TaskKey], list[float]]] = [
            {(name, key): task.scores for key, task in tasks.items()}
            for name, tasks in self.environments.items()
        ]
        return (
            samples
            if self.shares_tasks
            else [{place: task.scores for place, task in self.list_tasks().items()}]
        )


def read_scores(path: Path, score: str | None = None, *, whole_tasks: bool = True) -> ScoreTable:
    """Return the scores of a run, by default its rewards. `whole_tasks`: as for `comparison.read_attempts`.

    Raises `ConfigError` for a missing or damaged run, or one without this score.
    """
    score = score or DEFAULT_SCORE
    with closing(StoredRun(path)) as run:
        manifest = read_origin(run.files)
        table = ScoreTable(
            path,
            name_run(path, manifest),
            digest(manifest.identity)[:_DIGITS] if manifest else None,
            {},
            whole_tasks=whole_tasks,
        )
        keys, account = TaskKeys(run, whole=whole_tasks), run.open_account()
        scored: set[int] = set()
        for identity in sorted(run.scored):
            row = ensure_identity(run.scored.row(identity), identity)
            agent, key = keys.find(identity, row)
            value = read_record(row).measurements.get(score)
            account.add_score(row, value)
            if value is None:
                continue
            tasks = table.environments.setdefault(agent, {})
            if key not in tasks:
                tasks[key] = ScoredTask(identity.task, task_title(row))
            tasks[key].scores.append(value)
            scored.add(identity.task)
            table.rollouts += 1
            table.output_tokens += float(read_usage(row).get("output_tokens") or 0)
        table.unscored = len({identity.task for identity in run.tasks} - scored)
        table.notes = list(account.notes())
    if not table.rollouts:
        raise ConfigError(f"no row of {path} has the score {score!r}", code="nothing_to_compare")
    return table


def read_manifest(path: Path) -> Manifest | None:
    """Return a manifest; None without one that can be read: the scores of a run need none."""
    with suppress(ConfigError):
        return Manifest.read(path)
    return None


def read_tables(paths: Sequence[Path], score: str | None = None) -> list[ScoreTable]:
    """Return the scores of runs. Those with the same model get the names of their files as well.

    Tasks that the runs have in different numbers are one each, and a note says so. If a run lacks its task rows, tasks
    are recognized by their input alone. Raises `ConfigError` for a run that is named twice.
    """
    refuse_repeats(paths)
    whole = all(holds_text(RunFiles.from_existing(path).materialized_inputs) for path in paths)
    tables = [read_scores(path, score, whole_tasks=whole) for path in paths]
    for table, label in zip(tables, label_runs([table.label for table in tables], paths), strict=True):
        table.label = label
    uneven = find_uneven([table.list_tasks() for table in tables], whole_tasks=whole)
    if uneven:
        tables = [table.join_equal_tasks(uneven) for table in tables]
        tables[0].notes.append(describe_uneven(len(uneven)))
    return tables


def read_origin(files: RunFiles) -> Manifest | None:
    """Return the manifest of a run, or what the shards of a merged one are; None without one that can be read."""
    return read_manifest(files.manifest) or read_manifest(files.shards)


def name_run(path: Path, manifest: Manifest | None) -> str:
    """Return the model of a run, or the name of its file if no manifest tells it, or several answered."""
    facts = read_facts(manifest.identity, manifest.starts) if manifest else RunFacts()
    return facts.model or RunFiles.from_existing(path).stem


def label_runs(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Return a label for each run. Runs of the same name get those of their files as well."""
    labels = list(names)
    for name in {name for name, count in Counter(names).items() if count > 1}:
        places = [place for place, each in enumerate(names) if each == name]
        files = _tell_apart([paths[place] for place in places])
        for place, file in zip(places, files, strict=True):
            labels[place] = file if name == find_stem(paths[place]) else f"{name} ({file})"
    return labels


def _tell_apart(paths: Sequence[Path]) -> list[str]:
    """Return the names of files, with as many folders as tell them apart, or else the whole paths."""
    wholes = [path.absolute().parent / find_stem(path) for path in paths]
    for depth in range(1, max(len(whole.parts) for whole in wholes)):
        files = [str(Path(*whole.parts[-depth:])) for whole in wholes]
        if len({*files}) == len(files):
            return files
    return list(map(str, paths))


def split_by_agent(table: ScoreTable, environment: str) -> list[ScoreTable]:
    """Return a table for each agent of a run, as if each were a model in one `environment`."""
    return [
        replace(table, label=agent, environments={environment: tasks}, output_tokens=0.0, rollouts=0)
        for agent, tasks in table.environments.items()
    ]
