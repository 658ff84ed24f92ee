"""The account of a stored run: what a reader says of it beside its own figures, so that none of them misleads.

A run that is running or was killed has fewer rows than planned. A run that was resumed with other code holds the scores
of several codes, and one mean over them is the score of none. A run with `until` has more rows of uncertain tasks, so
that a mean of its rows is not its estimate. Rewards after tool calls that the environment failed, or of answers that
broke their verifier, say little of a model.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.json_objects import finite_number, object_in
from nemo_gym.metrics import mean
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.run_state import RunProgress
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_code
from nemo_gym.rows.tool_errors import CauseKey, CountedError, read_tool_errors
from nemo_gym.rows.verdict import read_answer_fault, read_reward
from nemo_gym.tables import write_number

FIRST_CODE = "the first code"
"""The name of the code of rows without a mark, if no manifest tells its digest."""
_SHOWN_CAUSES = 3


@dataclass(slots=True)
class CodeScores:
    """The rows that one code scored."""

    rows: int = 0
    scores: array[float] = field(default_factory=lambda: array("d"))

    @property
    def scored(self) -> int:
        """Return the number of rows with a score."""
        return len(self.scores)

    @property
    def mean(self) -> float | None:
        """Return the mean score; None without a score."""
        return mean(self.scores) if self.scores else None

    def merge(self, other: CodeScores) -> None:
        """Add the rows of another run."""
        self.rows += other.rows
        self.scores += other.scores

    def __str__(self) -> str:
        mean = "no score" if self.mean is None else f"mean {write_number(self.mean, 4)}"
        return f"{self.rows:,} rows, {mean}"

    def add(self, score: float | None) -> None:
        """Add a row; None for one without a score."""
        self.rows += 1
        if score is not None:
            self.scores.append(score)


@dataclass(slots=True)
class RunAccount:
    """The rows of a stored run, counted while they are read."""

    path: Path
    progress: RunProgress
    by_code: dict[str | None, CodeScores] = field(default_factory=dict)
    """By the mark of the rows: None for those of the run's first code."""
    copies: int = 0
    """Rows that another run has too, where they are counted."""
    is_torn: bool = False
    """Whether the last row is incomplete and left out."""
    failed: int = 0
    """Rollouts with a failure and no row, where they are counted."""
    unnamed: int = 0
    """Rows with neither an index nor a request."""
    estimate: str | None = None
    """The estimate of a run that drew its tasks, as a sentence."""
    rows_with_failed_tools: int = 0
    failed_tools: dict[CauseKey, CountedError] = field(default_factory=dict)
    """The tool calls that failed by the environment's fault."""
    broken: int = 0
    """Rows whose answers broke their verifier."""
    first_fault: str = ""
    """The cause in the first of them."""

    @classmethod
    def open(cls, files: RunFiles) -> RunAccount:
        """Return the account of the run in `files`, before its rows are read."""
        return cls(files.rows, RunProgress.read(files), estimate=describe_estimate(files))

    @property
    def rows(self) -> int:
        """Return the number of rows that were read."""
        return sum(scores.rows for scores in self.by_code.values())

    @property
    def has_codes(self) -> bool:
        """Return whether several codes scored the rows."""
        return len(self.by_code) > 1

    def add(self, row: AnyRow) -> None:
        """Add a row of the file, with its reward."""
        self.add_score(row, read_reward(row))

    def add_score(self, row: AnyRow, score: float | None) -> None:
        """Add a row of the file, with a score of the reader's choice."""
        self.by_code.setdefault(read_code(row), CodeScores()).add(score)
        failed = [error for error in read_tool_errors(row) if error.call.is_environments]
        self.rows_with_failed_tools += bool(failed)
        if (fault := read_answer_fault(row)) is not None:
            self.broken += 1
            self.first_fault = self.first_fault or fault
        for call, times in failed:
            first, earlier = self.failed_tools.get(call.cause_key, (call, 0))
            self.failed_tools[call.cause_key] = CountedError(first, earlier + times)

    def notes(self) -> Iterator[str]:
        """Yield the sentences that a reader prints with its figures."""
        yield from self.describe_run()
        if self.unnamed:
            yield (
                f"{self.path}: {self.unnamed:,} rows have neither `_ng_task_index` nor `responses_create_params`: each "
                "counts as a task of its own, which pairs with the row of another run at its place"
            )
        scored = sum(scores.scored for scores in self.by_code.values())
        if lacking := self.rows + self.failed - scored:
            yield f"{self.path}: {lacking:,} of {self.rows + self.failed:,} rollouts have no score, and are in no mean"
        if self.has_codes:
            means = (f"{name}: {scores}" for name, scores in self.name_codes(self.by_code))
            yield f"{self.path}: {len(self.by_code)} codes scored the rows; {'; '.join(means)}"
        if self.failed_tools:
            yield f"{self.path}: {self._describe_failed_tools()}"
        if self.broken:
            yield (
                f"{self.path}: {self.broken:,} of {self.rows:,} rollouts were scored 0 because their answers broke "
                f"`verify` (`answer_fault`), first: {self.first_fault}"
            )

    def describe_run(self) -> Iterator[str]:
        """Yield the sentences that the rows alone do not tell: all but those of their codes and tools."""
        if (unfinished := self.progress.describe(self.rows + self.copies)) is not None:
            yield f"{self.path}: {unfinished}"
        if self.is_torn:
            yield f"{self.path}: the last row is incomplete and left out"
        if self.estimate is not None:
            yield f"{self.path}: {self.estimate}"
        if changed := self.progress.changed:
            yield f"{self.path}: its rows were made with several settings: {'; '.join(changed)}"

    def _describe_failed_tools(self) -> str:
        ranked = sorted(self.failed_tools.values(), key=lambda error: (-error.times, error.call.tool))
        causes = [f"{times:,} of `{call.tool}`: {call}" for call, times in ranked[:_SHOWN_CAUSES]]
        if others := ranked[_SHOWN_CAUSES:]:
            causes.append(f"{sum(error.times for error in others):,} by {len(others)} other causes")
        rows = "row has" if self.rows_with_failed_tools == 1 else "rows have"
        return (
            f"{self.rows_with_failed_tools:,} {rows} tool calls that failed by the environment's fault: "
            f"{'; '.join(causes)}"
        )

    def name_codes(self, by_code: Mapping[str | None, CodeScores]) -> Iterator[tuple[str, CodeScores]]:
        """Yield the names of codes with their rows, in the order in which the run used them."""
        for mark in sorted(by_code, key=self._place):
            code = self._find_code(mark)
            digest, since = mark or self.progress.first_code or FIRST_CODE, code.get("since")
            yield f"{digest} (since {since})" if since else str(digest), by_code[mark]

    def to_json(self) -> dict[str, Any]:
        """Return the account as JSON: rows, plan, state, and the scores of each code."""
        return {
            "path": os.fsencode(self.path).decode(errors="backslashreplace"),
            "rows": self.rows,
            "planned": self.progress.planned,
            "state": self.progress.state.value,
            "end": self.progress.end,
            "codes": [
                {
                    "digest": mark or self.progress.first_code,
                    "since": self._find_code(mark).get("since"),
                    "rows": scores.rows,
                    "scored": scores.scored,
                    "mean": scores.mean,
                }
                for mark, scores in sorted(self.by_code.items(), key=lambda each: self._place(each[0]))
            ],
            "notes": list(self.notes()),
        }

    def _find_code(self, mark: str | None) -> Mapping[str, Any]:
        codes = self.progress.codes
        if mark is None:
            return codes[0] if codes else {}
        return next((code for code in codes if code.get("digest") == mark), {})

    def _place(self, mark: str | None) -> tuple[int, str]:
        digests = [code.get("digest") for code in self.progress.codes]
        if mark is None:
            return -1, ""
        return digests.index(mark) if mark in digests else len(digests), mark


def describe_estimate(files: RunFiles) -> str | None:
    """Return that the means of a run with `until` are not its estimate, and the estimate; None for another run."""
    if not files.draws.exists() and not holds_text(files.estimate):
        return None
    found = (object_in(files.estimate.read_bytes()) if holds_text(files.estimate) else None) or {}
    center, low, high = (finite_number(found.get(name)) for name in ("mean", "low", "high"))
    told = "drawn with --until, uncertain tasks more often: no mean of the rows is the run's estimate"
    if center is None or low is None or high is None:
        return told
    pair = found.get("pair")
    of_pair = f" of {pair[0]} less {pair[1]}" if isinstance(pair, list) and len(pair) == 2 else ""
    return f"{told}{of_pair}, {write_number(center)} ({write_number(low)} to {write_number(high)})"


def find_marks(accounts: Sequence[RunAccount]) -> list[str | None]:
    """Return the mark of each run's unmarked rows in a file with the rows of all: None if one code scored them."""
    firsts = [account.progress.first_code for account in accounts]
    return firsts if len({*firsts} - {None}) > 1 else [None] * len(firsts)


def describe_accounts(accounts: Sequence[RunAccount]) -> Iterator[str]:
    """Yield the notes on runs that are read as one: those of each, and whether their codes differ."""
    for account in accounts:
        yield from account.notes()
    by_code: dict[str, CodeScores] = {}
    for account, mark in zip(accounts, find_marks(accounts), strict=True):
        for code, scores in account.by_code.items():
            if mark is not None:
                by_code.setdefault(code or mark, CodeScores()).merge(scores)
    if len(by_code) > 1:
        parts = "; ".join(f"{code}: {scores}" for code, scores in by_code.items())
        yield f"{len(by_code)} codes scored the rows of the runs; {parts}"
