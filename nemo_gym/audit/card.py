"""The card of an environment: how often its verifier was wrong on an audit's probes.

    card = build_card("mcqa", outcomes, seed=0)
    card.as_json()
    "\\n".join(card.write_markdown())

Rates are those of these probes, by class, the worst class first: errors of verifiers cluster by cause, and one rate
hides them. Probes of one task are alike, so the task is the unit: a rate is the mean over tasks of the share of a
task's probes that got the wrong verdict, and its interval is Clopper and Pearson's for as many trials as there are
tasks. It is exact where a task's verdicts are all right or all wrong, and wider than needed otherwise. One more wrong
verdict never makes it tighter. Undecided and failed probes are shown and not counted.

A card of fewer than 150 tasks claims no rates: no error in 149 tasks leaves an upper bound of over 2 %.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.metrics import mean
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.statistics.distributions import find_rate_interval
from nemo_gym.tables import Column, table_lines, terminal_width

ENOUGH_TASKS = 150
OUTCOMES, CARD_JSON, CARD_MARKDOWN = "outcomes.jsonl", "card.json", "card.md"
"""The files of an audit in its folder."""
_EXAMPLES = 3
_LONGEST = 160
NOT_FOR_CORRECTIONS = (
    "These are rates of these probes, not of a policy's answers: corrections of noisy rewards need the rates of "
    "labelled rollouts."
)


@dataclass(frozen=True, slots=True)
class Rate:
    """Wrong verdicts among probes, with an interval that takes tasks as clusters."""

    probes: int
    wrong: int
    tasks: int
    value: float
    """The mean over tasks of the share of wrong verdicts; 0 without a task."""

    @property
    def interval(self) -> tuple[float, float]:
        """The two-sided 95 % interval."""
        return find_rate_interval(self.value * self.tasks, self.tasks)

    @property
    def upper(self) -> float:
        """The one-sided 95 % upper bound."""
        return find_rate_interval(self.value * self.tasks, self.tasks, error=0.1)[1]

    def as_json(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "probes": self.probes, "tasks": self.tasks, "wrong": self.wrong, "rate": self.value,
            "interval_95": [low, high], "upper_95": self.upper,
        }  # fmt: skip


def measure_rate(outcomes: Iterable[ProbeOutcome]) -> Rate:
    """Return the rate of wrong verdicts among the decided outcomes."""
    verdicts: defaultdict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.conclusion not in (Conclusion.UNDECIDED, Conclusion.FAILED):
            verdicts[outcome.task].append(outcome.conclusion is not Conclusion.RIGHT)
    shares = [mean(each) for each in verdicts.values()]
    probes, wrong = sum(map(len, verdicts.values())), sum(map(sum, verdicts.values()))
    return Rate(probes, wrong, len(shares), mean(shares) if shares else 0.0)


@dataclass(frozen=True, slots=True)
class ClassCard:
    """One class of probes."""

    kind: str
    right: Right
    rate: Rate
    undecided: int
    failed: int
    examples: Sequence[ProbeOutcome]
    """The first wrong verdicts, of different tasks where possible."""
    doubts: Sequence[ProbeOutcome]
    """The first undecided ones."""

    @property
    def error(self) -> str:
        return {Right.REJECT: "false accepts", Right.ACCEPT: "false rejects", Right.SAME: "flips"}[self.right]

    def as_json(self) -> dict[str, Any]:
        return {
            "class": self.kind, "error": self.error, **self.rate.as_json(), "undecided": self.undecided,
            "failed": self.failed, "examples": [outcome.as_json() for outcome in self.examples],
            "undecided_examples": [outcome.as_json() for outcome in self.doubts],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Card:
    """The result of an audit."""

    name: str
    seed: int
    tasks: int
    classes: Sequence[ClassCard]
    """The worst first."""
    false_accepts: Rate
    false_rejects: Rate
    seconds: Mapping[str, float]
    """The time of `verify`: median, p99, longest."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """The audited files, digests and versions."""
    notes: Sequence[str] = ()

    @property
    def is_enough(self) -> bool:
        return self.tasks >= ENOUGH_TASKS

    def as_json(self) -> dict[str, Any]:
        return {
            "environment": self.name, "seed": self.seed, "tasks": self.tasks, "enough": self.is_enough,
            "about": dict(self.about), "false_accepts": self.false_accepts.as_json(),
            "false_rejects": self.false_rejects.as_json(), "verify_seconds": dict(self.seconds),
            "classes": [each.as_json() for each in self.classes], "notes": [*self.notes, NOT_FOR_CORRECTIONS],
        }  # fmt: skip

    def write_markdown(self) -> Iterator[str]:
        """Yield the lines of the card."""
        yield f"# Audit of {self.name}"
        yield ""
        yield self.summarize()
        yield ""
        yield "| class of probes | wrong verdict | wrong | of | rate | 95 % interval | undecided | failed |"
        yield "|---|---|---|---|---|---|---|---|"
        for each in self.classes:
            yield f"| {' | '.join(self._list_cells(each))} |"
        yield ""
        times = ", ".join(f"{name} {value * 1000:.3g} ms" for name, value in self.seconds.items())
        yield f"Time of `verify`: {times}. Seed: {self.seed}."
        yield from (f"\n{note}" for note in (*self.notes, NOT_FOR_CORRECTIONS))
        for each in self.classes:
            if each.examples or each.doubts:
                yield f"\n## {each.kind}"
                yield from (f"- {_write_example(outcome)}" for outcome in (*each.examples, *each.doubts))

    def write_text(self) -> Iterator[str]:
        """Yield the lines of the card for a terminal."""
        yield self.summarize()
        columns = [
            Column("class"), Column("error", 2), Column("wrong", is_number=True), Column("of", is_number=True),
            Column("rate", 1, is_number=True), Column("95 % interval", 3), Column("undecided", 1, is_number=True),
            Column("failed", 4, is_number=True),
        ]  # fmt: skip
        rows = [self._list_cells(each) for each in self.classes]
        yield from (line.plain for line in table_lines(columns, rows, terminal_width()))
        for each in self.classes:
            yield from (f"{each.kind}: {_write_example(outcome)}" for outcome in each.examples[:1])
        yield from self.notes

    def write(self, folder: Path) -> None:
        """Write the card as JSON and as Markdown."""
        write_atomically(folder / CARD_JSON, json.dumps(self.as_json(), indent=1).encode() + b"\n")
        write_atomically(folder / CARD_MARKDOWN, ("\n".join(self.write_markdown()) + "\n").encode())

    def summarize(self) -> str:
        """Return one sentence about the whole."""
        if not self.is_enough:
            return (
                f"Not enough: {self.tasks} tasks, and rates need {ENOUGH_TASKS}. The findings below are facts; "
                "their absence shows nothing."
            )
        accepts, rejects = self.false_accepts, self.false_rejects
        return (
            f"{self.tasks} tasks. False accepts: {accepts.wrong} of {accepts.probes} probes, below "
            f"{accepts.upper:.2%} with 95 % confidence. False rejects: {rejects.wrong} of {rejects.probes}, below "
            f"{rejects.upper:.2%}."
        )

    def _list_cells(self, each: ClassCard) -> list[str]:
        low, high = each.rate.interval
        known = [f"{each.rate.value:.2%}", f"{low:.2%} to {high:.2%}"] if self.is_enough else ["–", "–"]
        counts = [str(each.rate.wrong), str(each.rate.probes)]
        return [each.kind, each.error, *counts, *known, str(each.undecided), str(each.failed)]


def build_card(
    name: str,
    outcomes: Iterable[ProbeOutcome],
    *,
    seed: int,
    about: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    tasks: int | None = None,
) -> Card:
    """Return the card of an audit's outcomes. `tasks`: their number, by default that of the outcomes' names."""
    all_outcomes = list(outcomes)
    by_class: defaultdict[tuple[str, Right], list[ProbeOutcome]] = defaultdict(list)
    for outcome in all_outcomes:
        by_class[outcome.kind, outcome.right].append(outcome)
    classes = [_describe_class(kind, right, found) for (kind, right), found in by_class.items()]
    classes.sort(key=lambda each: (-each.rate.interval[0], -each.rate.value, -each.undecided, each.kind))
    rates = {
        right: measure_rate(outcome for outcome in all_outcomes if outcome.right is right) for right in Right
    }
    return Card(
        name,
        seed,
        len({outcome.task for outcome in all_outcomes}) if tasks is None else tasks,
        classes,
        rates[Right.REJECT],
        rates[Right.ACCEPT],
        _measure_times([outcome.seconds for outcome in all_outcomes if outcome.seconds]),
        about or {},
        notes,
    )


def _describe_class(kind: str, right: Right, outcomes: Sequence[ProbeOutcome]) -> ClassCard:
    found = {
        conclusion: [each for each in outcomes if each.conclusion is conclusion] for conclusion in Conclusion
    }
    wrong = [*found[Conclusion.FALSE_ACCEPT], *found[Conclusion.FALSE_REJECT], *found[Conclusion.FLIP]]
    undecided, failed = found[Conclusion.UNDECIDED], found[Conclusion.FAILED]
    return ClassCard(
        kind, right, measure_rate(outcomes), len(undecided), len(failed), _choose(wrong or failed),
        _choose(undecided),
    )  # fmt: skip


def _choose(outcomes: Sequence[ProbeOutcome]) -> list[ProbeOutcome]:
    """Return a few outcomes of as many tasks as possible."""
    firsts = {outcome.task: outcome for outcome in reversed(outcomes)}
    chosen = sorted(firsts.values(), key=lambda outcome: outcome.task)[:_EXAMPLES]
    return [*chosen, *(outcome for outcome in outcomes if outcome not in chosen)][:_EXAMPLES]


def _measure_times(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {"median": ordered[last // 2], "p99": ordered[round(last * 0.99)], "longest": ordered[last]}


def _write_example(outcome: ProbeOutcome) -> str:
    shown = " ".join(outcome.probe.split()).replace("`", "'").replace("|", "\\|")
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
    reward = "no verdict" if outcome.reward is None else f"reward {outcome.reward:g}"
    reason = f": {outcome.reason}" if outcome.reason else ""
    where = f"{outcome.task}, call {outcome.place}" if outcome.place is not None else outcome.task
    return f"{outcome.conclusion.value}, {where}, {reward}: `{shown}`{reason}"
