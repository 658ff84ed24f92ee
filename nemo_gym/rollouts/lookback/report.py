"""A run as one HTML file that works without a network: figures, charts and failures of each agent.

The page has no script and makes no request; its policy (CSP) forbids both. All text from rows is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import finite_number
from nemo_gym.metrics import (
    AgentMetrics,
    has_partial_rewards,
    read_pass_curve,
    read_time_account,
    reward_by_k,
    reward_interval,
)
from nemo_gym.rollouts.lookback._charts import bar_chart, curve_chart, histogram
from nemo_gym.rollouts.lookback.account import CodeScores, RunAccount
from nemo_gym.rollouts.lookback.stored import IndexedRows, find_results
from nemo_gym.rollouts.lookback.task_clusters import find_clusters
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import RowsOnce, is_torn
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rollouts.output.manifest import Manifest, describe_repository
from nemo_gym.rollouts.output.run_facts import read_facts
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.compose import ensure_identity
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_in, read_attempt
from nemo_gym.rows.numbering import RowIdentities, require_indices
from nemo_gym.rows.parts import read_agent_or_unknown, read_code, read_usage
from nemo_gym.rows.timing import read_seconds
from nemo_gym.rows.verdict import describe_failure, is_scored, read_failure_class, read_reward
from nemo_gym.tables import write_number

_OUTCOME = "count/outcome/"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
:root { color-scheme: light dark }
table { border-collapse: collapse } th, td { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top }
td.number { text-align: right } code { overflow-wrap: anywhere }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem } figure { margin: 0 }
svg { width: 100%; height: auto } rect, circle { fill: #3b76b8 }
polyline { fill: none; stroke: #3b76b8; stroke-width: 2 }
text { font-size: 12px; fill: currentColor }
"""


@dataclass(slots=True)
class AgentFigures:
    """The figures of one agent's rollouts."""

    metrics: AgentMetrics = field(default_factory=AgentMetrics)
    rewards: array[float] = field(default_factory=lambda: array("d"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    output_tokens: array[float] = field(default_factory=lambda: array("d"))
    failures: Counter[str] = field(default_factory=Counter)
    """Failure class → attempts, of which others may have succeeded."""
    messages: dict[str, str] = field(default_factory=dict)
    """Failure class → the message of one."""
    by_code: dict[str | None, CodeScores] = field(default_factory=dict)
    """The rows by the mark of the code that scored them."""

    def add(self, row: AnyRow) -> None:
        """Add a scored or failed row."""
        self.metrics.add(row)
        reward = read_reward(row)
        if reward is None:
            kind = read_failure_class(row) or "no reward"
            self.failures[kind] += 1
            self.messages.setdefault(kind, describe_failure(row).message)
            return
        self.rewards.append(reward)
        self.by_code.setdefault(read_code(row), CodeScores()).add(reward)
        for column, value in (
            (self.seconds, read_seconds(row)),
            (self.output_tokens, finite_number(read_usage(row).get("output_tokens"))),
        ):
            if value is not None:
                column.append(value)


def write_report(rows: Path, output: Path) -> RunAccount:
    """Write the page of the run with the scored rows `rows`, and return the account of the run.

    Raises `ConfigError` if there is no such run, if it is damaged, or if `output` is one of its files.
    """
    files = find_results(rows)
    refuse_inputs([output], files.present())
    agents: dict[str, AgentFigures] = {}
    account = RunAccount.open(files)
    with closing(
        IndexedRows(files.materialized_inputs, problems=[])
    ) as task_rows:  # a damaged one is no task
        clusters = find_clusters(task_rows)
    for row in _read_attempts(files, account):
        agent = read_agent_or_unknown(row)
        if agent not in agents:
            agents[agent] = AgentFigures(AgentMetrics(clusters=clusters))
        agents[agent].add(row)
    estimate = read_estimate(files.estimate)
    commits = "; ".join(read_commits(files.manifest))
    told = [*describe_run(files.manifest), *([f"Commit: {commits}"] if commits else [])]
    page = render_report(rows.name, agents, told, account, estimate)
    write_atomically(output, (part.encode() for part in page))
    return account


def _read_attempts(files: RunFiles, account: RunAccount) -> Iterator[AnyRow]:
    """Yield the rows and the failed attempts of a run, each attempt once, with their indices."""
    once, identities, failed = RowsOnce(), RowIdentities(), set[tuple[RolloutId, int]]()
    for path in (files.rows, files.failures):
        for line in read_lines(path) if holds_text(path) else ():
            place = f"{path}:{line.number}"
            if is_torn(line.content):
                account.is_torn = True
                continue
            row: AnyRow = read_object(line.content, place, code="damaged_output")
            if path == files.rows:
                identity = identities.identify(row, place)
                once.add(identity, path, line.number)
                account.add(row)
                if not is_scored(row):
                    failed.add((identity, read_attempt(row)))
                yield ensure_identity(row, identity)
            elif (identity_in(row), read_attempt(row)) not in failed:
                require_indices(row, place)
                yield row
    account.unnamed = identities.unnamed


def read_commits(manifest: Path) -> list[str]:
    """Return the commits of the user's repository at the starts of a run, each once; none without a manifest."""
    found = None
    with suppress(ConfigError):  # the figures of a run need no manifest
        found = Manifest.read(manifest)
    told = (start.get("repository") for start in (found.starts if found is not None else ()))
    return list(dict.fromkeys(describe_repository(each) for each in told if isinstance(each, Mapping)))


def describe_run(path: Path) -> Iterator[str]:
    """Yield what a manifest tells of a run: its model, environments, sampling and date; nothing without one."""
    found = None
    with suppress(ConfigError):
        found = Manifest.read(path)
    if found is None:
        return
    start = found.starts[-1] if found.starts else {}
    facts = read_facts(found.identity, found.starts)
    sampling = ", ".join(f"{name} {value}" for name, value in facts.sampling.items())
    for title, text in (
        ("Model", ", ".join(facts.models)),
        ("Environments", ", ".join(facts.environments)),
        ("Sampling", sampling),
        ("Started", str(start.get("started_at") or "")),
        ("Tags", ", ".join(facts.tags)),
    ):
        if text:
            yield f"{title}: {text}"


def read_estimate(path: Path) -> list[str]:
    """Return what a run with `until` knows, in sentences; none for another run."""
    if not holds_text(path):
        return []
    try:
        return [*map(str, orjson.loads(path.read_bytes())["text"])]
    except (KeyError, TypeError, orjson.JSONDecodeError) as error:
        raise ConfigError(
            f"{path} is not an estimate: {error}",
            code="estimate_damaged",
            remedy="Resume the run with --until, which writes it again, or remove the file.",
        ) from error


def render_report(
    title: str,
    agents: Mapping[str, AgentFigures],
    told: Sequence[str] = (),
    account: RunAccount | None = None,
    estimate: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the text of the page. `told` are the sentences about the run, `account` is its account."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n"
    for note in account.notes() if account is not None else ():
        yield f"<p><strong>{escape(note)}</strong></p>\n"
    yield from (f"<p>{escape(line)}</p>\n" for line in told)
    yield from (f"<p>{escape(line)}</p>\n" for line in estimate)
    for name, figures in sorted(agents.items()):
        yield f"<h2>{escape(name)}</h2>\n"
        yield from _section(figures)
        if account is not None and account.has_codes:
            yield "<h3>Scores by code</h3>"
            codes = account.name_codes(figures.by_code)
            yield _table((name, "", str(scores)) for name, scores in codes)
    yield "</body></html>\n"


def _section(figures: AgentFigures) -> Iterator[str]:
    metrics = figures.metrics.result()["agent_metrics"]
    yield _table(_headline(metrics))
    yield '<div class="charts">'
    for name, values in (
        ("Rewards", figures.rewards),
        ("Seconds a rollout", figures.seconds),
        ("Output tokens a rollout", figures.output_tokens),
    ):
        if values:
            yield bar_chart(name, histogram(values))
    if (passed := read_pass_curve(metrics)) and not has_partial_rewards(metrics):
        yield curve_chart("pass@k", passed)
    yield "</div>\n"
    if figures.failures:
        yield "<h3>Failed attempts</h3>"
        yield _table((kind, f"{n:,}", figures.messages[kind]) for kind, n in figures.failures.most_common())


def _headline(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    yield "tasks", f"{metrics['count/tasks']:,}", ""
    for key, count in metrics.items():
        if key.startswith(_OUTCOME):
            yield key.removeprefix(_OUTCOME), f"{count:,}", ""
    if "mean/reward" in metrics:
        bounds = reward_interval(metrics)
        interval = f"{bounds.low:.4g} to {bounds.high:.4g}, with 95 % confidence" if bounds else ""
        yield "mean reward", f"{metrics['mean/reward']:.4g}", interval
    is_best, short = has_partial_rewards(metrics), reward_by_k(metrics, "short_tasks")
    for k, percent in read_pass_curve(metrics).items():
        if k & (k - 1) == 0:  # a row for each power of two; the curve has all
            yield (
                f"{'best' if is_best else 'pass'}@{k}",
                write_number(percent / 100) if is_best else f"{write_number(percent, 1)} %",
                f"without {short[k]:,} tasks that have fewer than {k} rewards" if k in short else "",
            )
    for name, key in (("tokens", "mean/total_tokens"), ("seconds", "mean/seconds")):
        if key in metrics:
            yield f"{name} of a rollout", write_number(metrics[key], 1), ""
    times = read_time_account("", metrics)
    for phase, seconds in (times.phases if times is not None else {}).items():
        yield f"seconds, {phase}", write_number(seconds), ""


def _table(rows: Iterator[tuple[str, str, str]]) -> str:
    lines = (
        f'<tr><th>{escape(name)}</th><td class="number">{escape(number)}</td><td>{escape(text)}</td></tr>'
        for name, number, text in rows
    )
    return f"<table>{''.join(lines)}</table>\n"
