"""The audit of a run's scored rows: signs of hacking, second verdicts, agreement with labels.

report = read_rollouts(Path("results/mcqa.jsonl"), label=None)
await verify_again(report, prober, most=200)      # where the environment is at hand
"\\n".join(report.write_text())
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.audit.dataset_facts import Difficulty
from nemo_gym.audit.labels import LabelAgreement
from nemo_gym.audit.probing import Prober
from nemo_gym.audit.rollout_signs import CHANGED, SIGNS, SignFinding, SignReader
from nemo_gym.rollouts.lookback.stored import find_results
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.verdict import is_scored, read_reward
from nemo_gym.tables import Column, table_lines, terminal_width

_SHOWN = 3
_AT_ONCE = 16


@dataclass(slots=True)
class RolloutReport:
    """The findings of an audit of a run's rows."""

    file: Path
    rows: int = 0
    wins: int = 0
    """Rollouts with the best reward of their agent, which were looked at for signs."""
    findings: list[SignFinding] = field(default_factory=list)
    agreement: LabelAgreement | None = None
    difficulty: Difficulty = field(default_factory=Difficulty)
    verified_again: int | None = None
    """How many rollouts were verified a second time; None if none could be."""
    notes: list[str] = field(default_factory=list)

    @property
    def by_sign(self) -> Mapping[str, list[SignFinding]]:
        """The findings of each sign that was looked for."""
        found: defaultdict[str, list[SignFinding]] = defaultdict(list)
        for finding in self.findings:
            found[finding.sign].append(finding)
        return {name: found[name] for name in SIGNS if name != CHANGED or self.verified_again is not None}

    def as_json(self) -> dict[str, Any]:
        return {
            "rollouts": str(self.file), "rows": self.rows, "wins": self.wins, "verified_again": self.verified_again,
            "signs": [
                {
                    "sign": name, "words": SIGNS[name].words, "rollouts": len({each.line for each in found}),
                    "false_alarms": SIGNS[name].alarms, "clean_rollouts": SIGNS[name].clean,
                    "false_alarm_interval_95": list(SIGNS[name].false_alarms),
                    "first": [{"line": each.line, "text": each.text} for each in found[:_SHOWN]],
                }
                for name, found in self.by_sign.items()
            ],
            "agreement": self.agreement.as_json() if self.agreement else None,
            "difficulty": self.difficulty.as_json(), "notes": self.notes,
        }  # fmt: skip

    def write_text(self) -> Iterator[str]:
        """Yield lines for a terminal."""
        yield f"{self.file}: {self.rows:,} rollouts, {self.wins:,} with the best reward of their agent"
        columns = [
            Column("sign"), Column("rollouts", is_number=True), Column("false alarms on clean runs", 1),
        ]  # fmt: skip
        rows = [
            [name, f"{len({each.line for each in found}):,}", _write_alarms(name)]
            for name, found in self.by_sign.items()
        ]
        yield from (line.plain for line in table_lines(columns, rows, terminal_width()))
        for name, found in self.by_sign.items():
            yield from (f"{name}, line {each.line}: {each.text}" for each in found[:_SHOWN])
        if self.findings:
            yield "A sign is no proof: read these rollouts."
        yield from self.difficulty.write_text()
        yield from self.agreement.write_text() if self.agreement else ()
        yield from self.notes


def _write_alarms(name: str) -> str:
    sign = SIGNS[name]
    low, high = sign.false_alarms
    return f"{sign.alarms} of {sign.clean:,} ({low:.2%} to {high:.2%})"


def read_rollouts(file: Path, *, label: str | None = None) -> RolloutReport:
    """Read the scored rows of a run. Raises `ConfigError` if there is no such run, or none of its rows has `label`."""
    report = RolloutReport(file)
    signs = SignReader()
    for number, row in _read_rows(file):
        signs.add(number, row)
        report.difficulty.add(row)
    report.rows, report.wins = signs.rows, signs.wins
    report.findings = list(signs.finish())
    if label is not None:
        report.agreement = LabelAgreement.read((row for _, row in _read_rows(file)), label)
    return report


def _read_rows(file: Path) -> Iterator[tuple[int, AnyRow]]:
    for line in read_lines(find_results(file).rows):
        yield line.number, read_object(line.content, f"{file}:{line.number}", code="malformed_rows")


async def verify_again(report: RolloutReport, prober: Prober, *, most: int) -> None:
    """Verify the first `most` scored rollouts a second time, and add what changed to the report."""
    rows: list[tuple[int, AnyRow]] = []
    for number, row in _read_rows(report.file):
        if is_scored(row) and len(rows) < most:
            rows.append((number, row))
    failures: Counter[str] = Counter()
    window = asyncio.Semaphore(_AT_ONCE)

    async def verify(number: int, row: AnyRow) -> None:
        async with window:
            verdict = await prober.verify(row)
        before = read_reward(row)
        if verdict.reward is None:
            failures[verdict.failure] += 1
        elif verdict.reward != before:
            text = f"the reward was {before:g}, and is {verdict.reward:g} now"
            report.findings.append(SignFinding(CHANGED, number, text))

    async with asyncio.TaskGroup() as group:
        for number, row in rows:
            group.create_task(verify(number, row))
    report.verified_again = len(rows) - failures.total()
    report.findings.sort(key=lambda finding: (finding.sign, finding.line))
    report.notes += [
        f"{count} rollouts have no second verdict: {why}" for why, count in failures.most_common(3)
    ]
