"""The closing table of a run: agents, failures with their causes, files and the next command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nemo_gym.config.spelling import spell_keys
from nemo_gym.metrics import describe_times
from nemo_gym.rollouts.output.manifest import describe_repository
from nemo_gym.rollouts.output.run_facts import RunFacts
from nemo_gym.rollouts.run.failure_groups import failure_lines
from nemo_gym.rollouts.run.progress import duration
from nemo_gym.rollouts.run.summary import AgentSummary, CollectSummary
from nemo_gym.tables import INTERVAL_MEANING, write_count, write_number

if TYPE_CHECKING:
    from rich.text import Text

    from nemo_gym.tables import Column

_SHOWN_K = 3
_SHOWN_CALLS = 5
_MODEL_COLUMNS = 80
"""The most columns of the line that names the model; the manifest has the whole names."""
_ONLY_KNOWN = ("tokens", "seconds")
"""Columns that are left out if no agent has a figure."""
_OVERALL = "overall: counts are of all agents; the other figures are the means of those of the agents"
_FAMILY = {False: "pass", True: "best"}


def print_summary(summary: CollectSummary, stream: TextIO, *, width: int | None = None) -> None:
    """Print the closing table, the failures, the files and the next command.

    `width` is that of the terminal by default, or `COLUMNS`. Without either, the table has all columns.
    """
    from rich.console import Console

    from nemo_gym.tables import fold_text, terminal_width

    console = Console(file=stream, highlight=False, soft_wrap=True)
    if width is None:
        width = terminal_width(stream)
    table = agent_table(summary, width)
    for line in table:
        console.print(line)
    is_estimated = summary.estimate is not None and summary.estimate.pair is None
    is_drawn = summary.estimate is not None
    marks = _marks(summary.agents, table, is_drawn=is_drawn, has_estimate=is_estimated)
    about_overall = [_OVERALL] if summary.overall else []
    for text in (*marks, *about_overall, *_write_closing_lines(summary)):
        console.print(fold_text(spell_keys(text), width), markup=False)


def agent_table(summary: CollectSummary, width: int | None) -> list[Text]:
    """Return the lines of a table with a row for each agent and one for all of them."""
    from nemo_gym.tables import table_lines

    rows = [*summary.agents, *([summary.overall] if summary.overall else [])]
    if not rows:
        return []
    ks = _choose_shown_k(rows)
    is_best = any(agent.has_partial_rewards for agent in rows)
    columns = _columns(ks, has_missing=any(agent.missing for agent in rows), is_best=is_best)
    cells = [_cells(agent, ks, is_best=is_best) for agent in rows]
    known = [
        place
        for place, column in enumerate(columns)
        if column.title not in _ONLY_KNOWN or any(row[place] != "-" for row in cells)
    ]
    return table_lines(
        [columns[place] for place in known], [[row[place] for place in known] for row in cells], width
    )


def _columns(ks: Sequence[int], *, has_missing: bool, is_best: bool) -> list[Column]:
    """Return the columns. `is_best`: a reward is neither 0 nor 1, so that k rollouts have a best reward and no pass."""
    from nemo_gym.tables import Column

    return [
        Column("agent"),
        Column("tasks", rank=6, is_number=True),
        Column("rollouts", rank=1 if has_missing else 3, is_number=True),
        Column("completed", rank=8, is_number=True),
        Column("truncated", rank=5, is_number=True),
        Column("failed", rank=1, is_number=True),
        Column("missing", rank=0 if has_missing else 4, is_number=True),
        Column("reward", is_number=True),
        Column("95 % interval", rank=1, is_number=True),
        *(
            Column(f"{_FAMILY[is_best]}@{k}", rank=_rank_k(ks, k, has_missing=has_missing), is_number=True)
            for k in ks
        ),
        Column("tokens", rank=5, is_number=True),
        Column("seconds", rank=5, is_number=True),
        Column("coverage", rank=9, is_number=True),
    ]


def _rank_k(ks: Sequence[int], k: int, *, has_missing: bool) -> int:
    """Return the rank of a column of k rollouts, which go before the interval of the mean.

    Few tasks of a run that was interrupted have the last k.
    """
    return 2 if k == ks[0] else 7 if k != ks[-1] else 3 if has_missing else 2


def _cells(agent: AgentSummary, ks: Sequence[int], *, is_best: bool) -> list[str]:
    write = _write_best if is_best else _percent
    counts = (
        agent.tasks, agent.rollouts, agent.completed, agent.truncated, agent.failed, agent.missing,
    )  # fmt: skip
    return [
        agent.agent,
        *(f"{count:,}" for count in counts),
        "-" if agent.mean_reward is None else write_number(agent.mean_reward),
        " to ".join(map(write_number, agent.ci95)) if agent.ci95 else "-",
        *(write(agent.pass_at.get(k)) + ("*" if _count_short(agent, k) else "") for k in ks),
        "-" if agent.tokens is None else f"{agent.tokens:,.0f}",
        "-" if agent.times is None else f"{agent.times.seconds:.3g}",
        _percent(agent.coverage),
    ]


def _choose_shown_k(agents: Sequence[AgentSummary]) -> list[int]:
    """Return at most three values of k: the first, the last and one between."""
    ks = sorted({k for agent in agents for k in agent.pass_at or agent.short_tasks})
    return ks if len(ks) <= _SHOWN_K else [ks[0], max(k for k in ks if 2 * k <= ks[-1]), ks[-1]]


def _count_short(agent: AgentSummary, k: int) -> int:
    """Return how many tasks pass@k leaves out; none if no task has a reward, because there is no figure to mark."""
    return 0 if agent.mean_reward is None else agent.short_tasks.get(k, 0)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{write_number(value, 1)} %"


def _write_best(value: float | None) -> str:
    return "-" if value is None else write_number(value / 100)


def _describe_model(facts: RunFacts) -> Iterator[str]:
    """Yield the line that names the models of a run, and the sampling of its command line."""
    if facts.models:
        sampling = ", ".join(f"{name} {value}" for name, value in facts.sampling.items())
        line = " ".join(f"model: {', '.join(facts.models)}{f' · {sampling}' if sampling else ''}".split())
        yield line if len(line) <= _MODEL_COLUMNS else f"{line[: _MODEL_COLUMNS - 1]}…"


def _write_closing_lines(summary: CollectSummary) -> Iterator[str]:
    counters = summary.counters
    rate = f", {counters.scored / summary.seconds:.1f}/s" if counters.scored and summary.seconds > 0 else ""
    earlier = f" ({counters.finished_before:,} existed before)" if counters.finished_before else ""
    yield ""
    yield f"{write_count(counters.scored, 'row', 'rows')} in {duration(summary.seconds)}{rate}{earlier}"
    yield from _describe_model(summary.facts)
    if counters.auto:
        yield f"auto: {counters.auto.describe()}"
    yield from describe_times([agent.times for agent in summary.agents if agent.times is not None])
    if summary.repository is not None:
        yield f"commit: {describe_repository(summary.repository)}"
    for event in summary.control:
        yield f"{event['verb']} at {event['at'][11:19]} by {event['by']}: {'; '.join(event['changes'])}"
    if summary.spent is not None:
        from nemo_gym.rollouts.output.expenses import describe_expenses  # most runs count none

        yield from describe_expenses(summary.spent)
    yield from _losses(summary)
    if summary.estimate is not None:
        from nemo_gym.rollouts.run.until_estimate import describe_closing

        yield from describe_closing(summary.estimate)
    yield from (f"note: {note}" for note in summary.notes)
    yield from (f"  {path}" for path in summary.files.present())
    if summary.stop is not None:
        yield ""
        yield f"stopped: {summary.stop.message}"
        if summary.stop.remedy:
            yield f"-> {summary.stop.remedy}"
    if summary.missing and summary.files.present():
        yield f"view: gym view {summary.files.rows}"
    yield f"next: {summary.next_command}"


def _marks(
    agents: Sequence[AgentSummary], table: Sequence[Text], *, is_drawn: bool, has_estimate: bool
) -> Iterator[str]:
    """Yield the meaning of intervals and of the mark at pass@k, for the columns that the table has.

    `is_drawn`: the run drew its tasks, uncertain ones more often.
    `has_estimate`: the interval is that of an estimate, which says its own meaning.
    """
    titles = table[0].plain.split() if table else []
    tasks = sum(agent.tasks for agent in agents)
    short = {
        k: sum(_count_short(agent, k) for agent in agents)
        for k in _choose_shown_k(agents)
        if {f"{family}@{k}" for family in _FAMILY.values()} & {*titles}
    }
    counts = [f"{count:,} of {tasks:,} at k = {k}" for k, count in short.items() if count]
    if counts:
        of_agents = ", counted for each agent" if len(agents) > 1 else ""
        yield f"* without the tasks that have fewer than k rewards{of_agents}: {', '.join(counts)}"
        if is_drawn:
            yield "With --until, tasks with many rewards are uncertain ones: pass@k of a large k may be below pass@1."
    if "interval" in titles and not has_estimate and any(agent.ci95 for agent in agents):
        yield INTERVAL_MEANING


def _losses(summary: CollectSummary) -> Iterator[str]:
    """Yield the rollouts without a full result and the tool calls that failed, with their causes."""
    counters = summary.counters
    when = " in this start" if counters.finished_before else ""  # the table counts all starts
    if counters.truncated:
        reasons = _write_reasons(counters.truncations)
        yield f"{write_count(counters.truncated, 'rollout was', 'rollouts were')} truncated{when}{reasons}"
    if counters.cancelled:
        yield f"{write_count(counters.cancelled, 'rollout was', 'rollouts were')} cancelled{when}"
    if summary.invalid_rows:
        yield f"{write_count(summary.invalid_rows, 'malformed row was', 'malformed rows were')} skipped"
    calls = summary.failed_tool_calls
    yield from map(str, calls[:_SHOWN_CALLS])
    if hidden := calls[_SHOWN_CALLS:]:
        yield f"… and {sum(each.failed for each in hidden):,} tool calls by {len(hidden)} other causes"
    if counters.failed:
        yield f"{write_count(counters.failed, 'rollout', 'rollouts')} failed{when}:"
        logs = _show_folder(summary.logs)
        yield from (f"  {line}" for line in failure_lines(summary.failures, logs))


def _write_reasons(reasons: Mapping[str, int]) -> str:
    ranked = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    return ": " + ", ".join(f"{count:,} by {reason}" for reason, count in ranked) if ranked else ""


def _show_folder(folder: Path | None) -> Path | None:
    """Return a folder as a user would write it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder is not None and folder.is_relative_to(here) else folder
