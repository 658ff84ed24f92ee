"""Runs the rules over rows: in one pass over the file, with 56 bytes a row in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_gym.config.problems import did_you_mean
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.account import RunAccount
from nemo_gym.rollouts.lookback.health.attempts import Attempts
from nemo_gym.rollouts.lookback.health.rows import CheckedRow
from nemo_gym.rollouts.lookback.health.rules import DAMAGED_ROW, RULES, Finding, HealthRule, Severity
from nemo_gym.rollouts.lookback.stored import find_results
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, parse_row
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.numbering import RowIdentities
from nemo_gym.rows.version import require_readable

MOST_KEPT = 1_000
"""Findings of a rule that a report keeps. The count includes all."""


class HealthCheck:
    """The rules over the rows of one run."""

    def __init__(self, skip: Collection[str] = (), account: RunAccount | None = None) -> None:
        """`skip` names rules that are switched off. The rows are added to `account`.

        Raises `ConfigError` for an unknown name.
        """
        for name in skip:
            if name not in RULES:
                remedy = did_you_mean(name, RULES) or f"Choose one of {', '.join(RULES)}."
                raise ConfigError(f"there is no rule {name!r}", code="no_rule", param="skip", remedy=remedy)
        self.rules: Sequence[HealthRule] = [rule for rule in RULES.values() if rule.name not in skip]
        self.attempts = Attempts()
        self._identities = RowIdentities()
        self._account = account

    def read_line(self, line: bytes, number: int) -> Iterator[Finding]:
        """Yield the findings in the line with this number, from 1."""
        try:
            row = parse_row(line)
            require_readable(row)
        except (FaultyRowError, ConfigError) as error:
            text = error.faults[0].message if isinstance(error, FaultyRowError) else error.failure.message
            yield from self._damage(text, number)
        else:
            yield from self.read(row, number)

    def _damage(self, text: str, number: int) -> Iterator[Finding]:
        if DAMAGED_ROW in self.rules:
            yield Finding(DAMAGED_ROW.name, text, number)

    def read(self, row: AnyRow, number: int) -> Iterator[Finding]:
        """Yield the findings in the row on the line with this number, from 1."""
        try:
            identity = self._identities.identify(row, f"line {number}")
        except ConfigError as error:
            yield from self._damage(error.failure.message.partition(": ")[2], number)
            return
        if self._account is not None:
            self._account.add(row)
        checked = CheckedRow(number, identity, row)
        self.attempts.add(checked)
        for rule in self.rules:
            text = rule.in_row(checked) if rule.in_row else None
            if text is not None:
                yield Finding(rule.name, text, number, *identity)

    def finish(self) -> Iterator[Finding]:
        """Yield the findings in groups and in the whole run, after the last row."""
        for rule in self.rules:
            for hit in rule.in_run(self.attempts) if rule.in_run else ():
                yield Finding(rule.name, *hit)


@dataclass(slots=True)
class RuleFindings:
    """The findings of one rule."""

    rule: HealthRule
    count: int = 0
    first: list[Finding] = field(default_factory=list)
    """At most `MOST_KEPT` of them."""

    def add(self, finding: Finding) -> None:
        """Count and keep a finding."""
        self.count += 1
        if len(self.first) < MOST_KEPT:
            self.first.append(finding)


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The findings in a run."""

    rows: int
    rules: Mapping[str, RuleFindings]
    """By name, for every rule that was checked."""
    account: RunAccount
    """The account of the run."""

    @property
    def found(self) -> Sequence[RuleFindings]:
        """Return the rules with findings, faults first."""
        return [findings for findings in self.rules.values() if findings.count]

    @property
    def has_faults(self) -> bool:
        """Return whether data is broken."""
        return any(findings.rule.severity is Severity.FAULT for findings in self.found)


def check_health(rows: Path, *, skip: Collection[str] = ()) -> HealthReport:
    """Check the run with the scored rows `rows`.

    Raises `ConfigError` if there is no such run, if it is compressed and damaged, or for an unknown rule in `skip`.
    """
    files = find_results(rows)
    account = RunAccount.open(files)
    check = HealthCheck(skip, account)
    rules = {rule.name: RuleFindings(rule) for rule in check.rules}
    count = 0
    for line in read_lines(files.rows):
        count += 1
        for finding in check.read_line(line.content, line.number):
            rules[finding.rule].add(finding)
    for finding in check.finish():
        rules[finding.rule].add(finding)
    return HealthReport(count, rules, account)
