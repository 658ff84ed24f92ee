"""Runs of known content. Every function returns the figures that a viewer has to show, computed without one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import orjson

from tests.browser.rows import message, row_of, sampled, write_manifest, write_run

AGENTS = ("swe_small", "swe_large", "math")
OUTCOMES = ("completed", "truncated")
ROLLOUTS = 8
STARTED = 1_777_000_000
"""Seconds since 1970 of the first row; the others follow, one a second."""


class Fact(NamedTuple):
    """The numbers of one row."""

    task: int
    rollout: int
    reward: float | None
    """None: the row has no score, because its judge failed."""
    score: float
    seconds: float
    tokens: int
    calls: int
    agent: str
    outcome: str
    created_at: int


@dataclass(frozen=True)
class Table:
    """A file of rows and its numbers."""

    path: Path
    facts: list[Fact]


def facts_of(rows: int, seed: int) -> Iterator[Fact]:
    """Yield the numbers of random rows, `ROLLOUTS` for each task."""
    choose = random.Random(seed)
    for number in range(rows):
        reward = choose.choice((0.0, 0.25, 0.5, 1.0, 1.0))
        yield Fact(
            task=number // ROLLOUTS,
            rollout=number % ROLLOUTS,
            reward=None if choose.random() < 0.01 else reward,
            score=choose.random(),
            seconds=round(choose.random() * 300, 4),
            tokens=choose.randrange(100_000),
            calls=choose.randrange(3),
            agent=AGENTS[number // ROLLOUTS % len(AGENTS)],  # a task is of one agent
            outcome=OUTCOMES[choose.random() < 0.1],
            created_at=STARTED + number,
        )


_CALL = b'{"type":"function_call","call_id":"c","name":"step","arguments":"{}"},'
_FAILED = b'"_ng_failure_class":"judge_failed","reward":0.0,'


def line_of(fact: Fact, text: bytes) -> bytes:
    """Return the row of `fact`, whose answer is `text`."""
    reward = _FAILED if fact.reward is None else b'"reward":%r,' % fact.reward
    return (
        b'{"_ng_task_index":%d,"_ng_rollout_index":%d,"_ng_attempt_index":0,"responses_create_params":{"input":'
        b'[{"role":"user","content":"Question %d"}]},"agent_ref":{"name":"%s"},%s"score":%r,"response":'
        b'{"created_at":%d,"output":[%s{"type":"message","role":"assistant","content":[{"type":"output_text",'
        b'"text":"%s"}]}],"usage":{"total_tokens":%d}},"_ng_outcome":"%s","_ng_timing":{"total":%r}}\n'
    ) % (
        *(fact.task, fact.rollout, fact.task, fact.agent.encode(), reward, fact.score, fact.created_at),
        *(_CALL * fact.calls, text, fact.tokens, fact.outcome.encode(), fact.seconds),
    )


def write_table(path: Path, rows: int, *, text_bytes: int = 40, seed: int = 1) -> Table:
    """Write `rows` rows, each with an answer of `text_bytes` bytes."""
    facts = list(facts_of(rows, seed))
    text = (b"words of an answer, and more of them " * (1 + text_bytes // 37))[:text_bytes]
    with path.open("wb", buffering=1 << 22) as file:
        file.writelines(line_of(fact, text) for fact in facts)
    return Table(path, facts)


def write_runs(folder: Path, runs: range, rows: int = 64) -> None:
    """Write numbered runs of `rows` rollouts."""
    for number in runs:
        path = write_table(folder / f"run_{number:04}.jsonl", rows, seed=number).path
        write_manifest(
            path, f"model_{number}", {"planned": rows, "completed": rows, "truncated": 0, "failed": 0}
        )


NEEDLE = "permission denied"


def write_searched(path: Path, rows: int) -> tuple[Path, int]:
    """Write rows of 4 KB, every 97th with the needle in another case; return the file and the number of those."""
    text = b"nothing to see here, " * 190
    with path.open("wb") as file:
        for number, fact in enumerate(facts_of(rows, 3)):
            file.write(line_of(fact, text + (b"Permission DENIED" if number % 97 == 0 else b"")))
    return path, len(range(0, rows, 97))


def write_long(path: Path, calls: int, output_bytes: int) -> Path:
    """Write a rollout of many calls, and one with a long output of a tool."""
    items = [
        item
        for number in range(calls)
        for item in (
            {"type": "function_call", "call_id": str(number), "name": "step", "arguments": "{}"},
            {"type": "function_call_output", "call_id": str(number), "output": "result\n" * 50},
        )
    ]
    lines = "".join(f"line {number:08d} of the output\n" for number in range(output_bytes // 28))
    output = {"type": "function_call_output", "call_id": "x", "output": lines}
    return write_run(path, [row_of(0, 0, [*items, message("done")]), row_of(1, 0, [output])])


def write_tokens(path: Path, tokens: int) -> Path:
    """Write a rollout of `tokens` ids in two calls, with the texts of the ids beside it."""
    choose = random.Random(5)
    ids = [choose.randrange(1000) for _ in range(tokens)]
    half = tokens // 2
    logprobs = [-choose.random() * 8 for _ in range(tokens)]
    calls = [
        sampled("one", ids[:16], ids[16:half], logprobs[16:half]),
        sampled("two", ids[: half + 16], ids[half + 16 :], logprobs[half + 16 :]),
    ]
    texts = {str(token): f" w{token}" for token in range(1000)}
    path.with_name(f"{path.stem}_token_texts.json").write_bytes(orjson.dumps(texts))
    return write_run(path, [row_of(0, 0, calls)])


@dataclass(frozen=True)
class Flips:
    """Two runs with the same tasks, some of which change."""

    before: Path
    after: Path
    up: int
    down: int
    only_before: list[int]
    only_after: list[int]


def write_flips(folder: Path, tasks: int) -> Flips:
    """Write two runs: of every hundred tasks, 7 get better and 3 worse. Each run has two tasks of its own."""
    before, after = folder / "before.jsonl", folder / "after.jsonl"
    shared = range(2, tasks)
    changes = {task: task % 100 for task in shared if task % 100 < 10}
    first = {task: 0.0 if changes.get(task, 9) < 7 else 1.0 for task in shared}
    second = {task: 1.0 - reward if task in changes else reward for task, reward in first.items()}
    for path, rewards, own in ((before, first, 0), (after, second, tasks)):
        rewards |= {own: 1.0, own + 1: 1.0}
        write_run(path, (row_of(task, 0, [message("x")], reward) for task, reward in rewards.items()))
    up = sum(first[task] < second[task] for task in shared)
    return Flips(before, after, up, len(changes) - up, [0, 1], [tasks, tasks + 1])


def first_lines(path: Path, count: int) -> list[bytes]:
    with path.open("rb") as file:
        return list(islice(file, count))
