"""A run of 2,000 rows without a fault, with tokens, tools and verdicts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.rollouts.lookback.health import HealthReport, check_health

TASKS = 500
REPEATS = 4
_WORDS = (
    *("the", "a", "sum", "of", "all", "rows", "is", "so", "then", "we", "add", "first", "second", "number"),
    *("value", "because", "answer", "total", "check", "again", "which", "divide", "multiply", "by", "each"),
    *("step", "result", "gives", "under", "over", "left", "right", "remain", "carry", "compare", "equal"),
)


@cache
def _lines() -> tuple[bytes, ...]:
    chance = random.Random(7)
    identities = [(task, repeat) for task in range(TASKS) for repeat in range(REPEATS)]
    chance.shuffle(identities)
    return tuple(orjson.dumps(_row(chance, *identity)) for identity in identities)


def healthy_rows() -> list[dict[str, Any]]:
    """Return the rows, anew each time, in the order in which they finished."""
    return [orjson.loads(line) for line in _lines()]


def check(folder: Path, rows: Sequence[Any], **options: Any) -> HealthReport:
    """Return the report on a run of these rows, or lines as bytes."""
    lines = (row if isinstance(row, bytes) else orjson.dumps(row) for row in rows)
    path = folder / "rollouts.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return check_health(path, **options)


def names_found(report: HealthReport) -> list[str]:
    """Return the names of the rules with findings."""
    return [findings.rule.name for findings in report.found]


def prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS) + str(chance.randrange(100)) for _ in range(words))


def _row(chance: random.Random, task: int, repeat: int) -> dict[str, Any]:
    is_right = (task + repeat) % 2 == 0
    call = {
        "type": "function_call",
        "call_id": "c",
        "name": "add",
        "arguments": f'{{"a":{task},"b":{repeat}}}',
    }
    output = [
        {
            "type": "reasoning",
            "id": "r",
            "summary": [],
            "content": [_text(prose(chance, 100), "reasoning_text")],
        },
        call | _tokens(chance, 5),
        {"type": "function_call_output", "call_id": "c", "output": str(task + repeat)},
        message(prose(chance, chance.randrange(60, 180))) | _tokens(chance, 40),
    ]
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        "responses_create_params": {"input": [{"role": "user", "content": f"question {task}"}]},
        "expected_answer": f"the answer to question {task} in words",
        "agent_ref": {"type": "responses_api_agents", "name": "agent"},
        "reward": float(is_right),
        "correct": is_right,
        "response": {"output": output, "usage": {"output_tokens": 45}},
        "_ng_outcome": "completed",
        "_ng_end_reason": "final_answer",
    }


def write(row: dict[str, Any], text: str) -> None:
    """Make `text` the last message of a row."""
    row["response"]["output"][-1] = message(text) | tokens()


def last_item(row: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = row["response"]["output"][-1]
    return item


def tokens() -> dict[str, Any]:
    return {
        "prompt_token_ids": [1],
        "generation_token_ids": [2, 2, 2],
        "generation_log_probs": [-0.5, -0.25, -1.0],
    }


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [_text(text, "output_text")]}


def _text(text: str, kind: str) -> dict[str, Any]:
    return {"type": kind, "text": text}


def _tokens(chance: random.Random, count: int) -> dict[str, Any]:
    return {
        "prompt_token_ids": [chance.randrange(1000) for _ in range(8)],
        "generation_token_ids": [chance.randrange(1000) for _ in range(count)],
        "generation_log_probs": [-chance.random() * 3 for _ in range(count)],
    }
