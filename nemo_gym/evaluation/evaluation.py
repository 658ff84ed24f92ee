"""An environment run against a model from Python: in a notebook, a script or a test.

    from nemo_gym import evaluate

    result = evaluate("mcqa", model=lambda request: "It is \\\\boxed{C}.", limit=20, repeats=4)
    result.mean_reward, result.rollouts, result.to_pandas()

All servers run in this process. `evaluate` blocks and works in a notebook too; `evaluate_async` is the coroutine.
A process can run one evaluation at a time.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import BaseModel, Field

from nemo_gym.config.current import configured
from nemo_gym.config.loading import GlobalConfig, load
from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.pydantic_problems import validate
from nemo_gym.config.selection import NamedConfig, select
from nemo_gym.config.spelling import spell
from nemo_gym.config.tree import DictTree
from nemo_gym.datasets.declared import list_declared_files
from nemo_gym.evaluation.callable_engine import MODEL_NAME, ModelFunction, serve_function
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import parse_json
from nemo_gym.launch.inline import inline
from nemo_gym.metrics.estimators import mean
from nemo_gym.metrics.records import read_measurements
from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import DatasetFile, read_lines
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.options import RunLimits
from nemo_gym.rollouts.run.progress import display_for
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.forms import AnyRow, FailureRow, ScoredRow
from nemo_gym.rows.identity import identity_in
from nemo_gym.rows.parts import read_agent, read_agent_or_unknown, read_response
from nemo_gym.rows.timing import read_seconds
from nemo_gym.rows.verdict import read_end_reason, read_outcome, read_reward
from nemo_gym.verify.answers import last_assistant_text

if TYPE_CHECKING:
    import pandas

Tasks: TypeAlias = str | Path | Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """The result of an evaluation."""

    rollouts: list[ScoredRow]
    """The scored rows, ordered by task and repeat."""
    failures: list[FailureRow]
    """The failed attempts; those of rollouts that succeeded later included."""
    metrics: Mapping[str, Mapping[str, Any]]
    """Agent → metrics by name (docs/metrics.md)."""
    summary: CollectSummary

    def __repr__(self) -> str:
        counts = f"{len(self.rollouts):,} rollouts, {self.summary.missing:,} without a score"
        mean_reward = "none" if self.mean_reward is None else f"{self.mean_reward:.4g}"
        return f"Evaluation({counts}, mean reward {mean_reward})"

    @property
    def mean_reward(self) -> float | None:
        """Return the mean reward of the scored rollouts; of several agents the mean of theirs; None without any."""
        rewards: defaultdict[str, list[float]] = defaultdict(list)
        for row in self.rollouts:
            if (reward := read_reward(row)) is not None:
                rewards[read_agent_or_unknown(row)].append(reward)
        return mean([*map(mean, rewards.values())]) if rewards else None

    def to_pandas(self) -> pandas.DataFrame:
        """Return a line per rollout: identity, agent, reward, outcome, the row's numbers, and the last answer.

        Raises `ConfigError` if pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ConfigError(
                "pandas is not installed", code="no_pandas", remedy="Install it: pip install pandas"
            ) from error
        return pandas.DataFrame([_build_line(row) for row in self.rollouts])


def _build_line(row: AnyRow) -> dict[str, Any]:
    task, repeat = identity_in(row) or (None, None)
    named = {
        "task": task,
        "repeat": repeat,
        "agent": read_agent(row),
        "reward": read_reward(row),
        "outcome": read_outcome(row).value,
        "end_reason": read_end_reason(row),
        "seconds": read_seconds(row),
        "answer": last_assistant_text(read_response(row)),
    }
    return named | {name: value for name, value in read_measurements(row).items() if name not in named}


def evaluate(environment: str, **options: Any) -> Evaluation:
    """Run an environment against a model and wait for the result. The arguments are those of `evaluate_async`."""
    with EventLoopThread("evaluation") as loop:
        return loop.run(evaluate_async(environment, **options))


async def evaluate_async(
    environment: str,
    *,
    model: str | ModelFunction | None = None,
    model_name: str | None = None,
    api_key: str | None = None,
    tasks: Tasks | None = None,
    agent: str | None = None,
    split: str = "example",
    limit: int | None = None,
    repeats: int | None = None,
    concurrency: int | Literal["auto"] = 64,
    output: str | Path | None = None,
    overrides: Sequence[str] = (),
    progress: bool = True,
) -> Evaluation:
    """Run an environment against a model. Raises `ConfigError` for wrong arguments, before anything runs.

    Args:
        environment: a name that `gym list` shows, or the path of a configuration or of an environment's folder.
        model: the URL of an OpenAI-compatible API, or a function (`ModelFunction`); by default as `env.yaml` says.
        tasks: a JSONL file or rows; by default the environment's dataset of the type `split`.
        agent: the agent of rows that name none; by default the only one.
        limit: at most this number of tasks per dataset.
        repeats: rollouts of each task; by default 1, or as its dataset declares.
        concurrency: rollouts in flight, or `auto`.
        output: the file for the rows of a new run; by default no file remains.
        overrides: further keys, as on the command line:
            `++mcqa_simple_agent.responses_api_agents.simple_agent.max_steps=3`.
    """
    _check(limit=limit, repeats=repeats, concurrency=concurrency, split=split)
    async with AsyncExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="nemo_gym_")))
        keys = await _model_keys(model, model_name, api_key, opened)
        config = _configuration(environment, [*keys, *overrides])
        datasets = tuple(_datasets(config, tasks, folder, split, agent, repeats))
        path, limits = Path(output or folder / "rollouts.jsonl"), RunLimits(concurrency)
        settings = CollectSettings(datasets=datasets, output=path, limit=limit, limits=limits)
        return _evaluation(await _run(config, settings, opened, quiet=not progress))


class _Bounds(BaseModel, strict=True):
    """The arguments of an evaluation that are neither an environment nor a model."""

    limit: Annotated[int, Field(ge=1)] | None
    repeats: Annotated[int, Field(ge=1)] | None
    concurrency: Annotated[int, Field(ge=1)] | Literal["auto"]
    split: str


def _check(**bounds: object) -> None:
    """Raise `ConfigErrors` with all wrong bounds."""
    problems = Problems()
    validate(_Bounds, bounds, DictTree({}, Location("evaluate")), problems)
    problems.raise_if_any()


async def _model_keys(
    model: str | ModelFunction | None, name: str | None, api_key: str | None, opened: AsyncExitStack
) -> list[str]:
    """Return the overrides that name the model. A function is served until `opened` ends."""
    if callable(model):
        model = f"{await opened.enter_async_context(serve_function(model))}/v1"
        name, api_key = name or MODEL_NAME, api_key or "none"
    keys = {"policy_base_url": model, "policy_model_name": name, "policy_api_key": api_key}
    return [f"++{key}={spell(value)}" for key, value in keys.items() if value is not None]


async def _run(
    config: GlobalConfig, settings: CollectSettings, opened: AsyncExitStack, *, quiet: bool
) -> CollectSummary:
    opened.enter_context(configured(config.data))
    gym = await opened.enter_async_context(inline(config))
    found = DiscoveredGym(gym.config, gym.token, gym.transport)
    return await collect(settings, found.caller(), found, display=display_for(sys.stderr, quiet=quiet))


def _configuration(environment: str, overrides: Sequence[str]) -> GlobalConfig:
    chosen = select(NamedConfig(targets=[environment]), overrides, Path.cwd())
    return load(chosen.overrides, makes_token=True)


def _datasets(
    config: GlobalConfig,
    tasks: Tasks | None,
    folder: Path,
    split: str,
    agent: str | None,
    repeats: int | None,
) -> list[DatasetFile]:
    if tasks is None:
        return list_declared_files(config, split, agent, repeats)
    if not isinstance(tasks, str | Path):
        rows = [orjson.dumps(dict(row)) + b"\n" for row in tasks]
        if not rows:
            raise ConfigError("`tasks` has no rows", code="no_tasks")
        tasks = folder / "tasks.jsonl"
        tasks.write_bytes(b"".join(rows))
    return [DatasetFile(Path(tasks), repeats or 1, agent)]


def _evaluation(summary: CollectSummary) -> Evaluation:
    """Read a run's files."""
    files = summary.files
    rows, failures = (
        [parse_json(line.content) for line in read_lines(path)] if holds_text(path) else []
        for path in (files.rows, files.failures)
    )
    metrics = json.loads(files.aggregate_metrics.read_bytes()) if files.aggregate_metrics.exists() else []
    return Evaluation(
        rollouts=sorted(rows, key=lambda row: identity_in(row) or ()),
        failures=failures,
        metrics={str(read_agent(each)): each["agent_metrics"] for each in metrics},
        summary=summary,
    )
