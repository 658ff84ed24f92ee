"""Facts of task rows that weaken every reward on them: duplicates, contradictions, tasks of one split in another.

Prompts are compared as texts without case and spaces, so that two tasks that differ in a word are two tasks.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.audit.answer_types import find_answer, read_conversation
from nemo_gym.json_objects import dump_json
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params
from nemo_gym.rows.verdict import is_scored, read_reward

_SHOWN = 3


def _digest(text: str) -> bytes:
    return hashlib.sha256(" ".join(text.casefold().split()).encode(errors="replace")).digest()[:12]


@dataclass(slots=True)
class DatasetFacts:
    """Duplicates within files of rows, and between them."""

    rows: int = 0
    duplicates: list[str] = field(default_factory=list)
    """Rows with the prompt and the answer of an earlier row of their file."""
    contradictions: list[str] = field(default_factory=list)
    """Rows with the prompt of an earlier row, and with another answer."""
    shared: list[str] = field(default_factory=list)
    """Rows whose prompt is in another file too."""
    _seen: dict[bytes, tuple[str, int, bytes]] = field(default_factory=dict)
    """File, line and answer by prompt."""

    def add(self, file: str, line: int, row: AnyRow) -> None:
        """Take a row, which has a valid answer type."""
        self.rows += 1
        tools = dump_json(read_params(row).get("tools")).decode()
        prompt = _digest(read_conversation(row) + tools)
        answer = find_answer(row)
        gold = _digest(dump_json([sorted(answer.all_gold), answer.value]).decode())
        if prompt not in self._seen:
            self._seen[prompt] = (file, line, gold)
            return
        first_file, first_line, first_gold = self._seen[prompt]
        both = f"{file}:{line} and {first_file}:{first_line}"
        if first_file != file:
            self.shared.append(both)
        elif answer.all_gold or answer.value is not None:
            (self.duplicates if gold == first_gold else self.contradictions).append(both)

    def as_json(self) -> dict[str, Any]:
        return {
            name: {"count": len(places), "first": list(places[:_SHOWN])}
            for name, places in self._named.items()
        }

    def write_notes(self) -> Iterator[str]:
        """Yield a sentence for each fact."""
        words = {
            "duplicates": "rows repeat an earlier row",
            "contradictions": "rows have the prompt of an earlier row and another expected answer",
            "shared": "rows are in another split too",
        }
        for name, places in self._named.items():
            if places:
                yield f"{len(places)} of {self.rows} {words[name]}, first {places[0]}."

    @property
    def _named(self) -> Mapping[str, Sequence[str]]:
        return {
            "duplicates": self.duplicates,
            "contradictions": self.contradictions,
            "shared": self.shared,
        }


@dataclass(slots=True)
class Difficulty:
    """How many tasks a policy always, sometimes and never solved, by the rows of a run."""

    _rewards: defaultdict[bytes, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: AnyRow) -> None:
        """Take a row of a run; one without a score says nothing."""
        reward = read_reward(row)
        if is_scored(row) and reward is not None:
            self._rewards[_digest(read_conversation(row))].append(reward)

    @property
    def tasks(self) -> int:
        return len(self._rewards)

    def count(self) -> dict[str, int]:
        """Return the number of tasks by how often they were solved: with a reward of 1 or more."""
        counts = dict.fromkeys(("always", "sometimes", "never"), 0)
        for rewards in self._rewards.values():
            solved = sum(reward >= 1 for reward in rewards)
            counts["always" if solved == len(rewards) else "sometimes" if solved else "never"] += 1
        return counts

    def as_json(self) -> dict[str, Any]:
        return {"tasks": self.tasks, **self.count()}

    def write_text(self) -> Iterator[str]:
        """Yield one line for a terminal."""
        counts = ", ".join(f"{count:,} {name}" for name, count in self.count().items())
        yield f"tasks solved: {counts} (of {self.tasks:,})"
