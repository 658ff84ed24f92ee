"""Runs as they are left behind, made without collecting them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from nemo_gym.rows.identity import RolloutId
from tests.rollouts.doubles import AGENT, task_row


def scored_row(
    task: int, repeat: int = 0, reward: float = 1.0, *, agent: str = AGENT, **fields: Any
) -> dict[str, Any]:
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        **task_row(task, agent=agent),
        "response": {"output": [], "usage": {"output_tokens": 10 * (repeat + 1)}},
        "reward": reward,
        "_ng_outcome": "completed",
        "_ng_end_reason": "final_answer",
        **fields,
    }


def failure_row(
    task: int, repeat: int = 0, kind: str = "engine:gone", *, agent: str = AGENT, **fields: Any
) -> dict[str, Any]:
    error = {"type": "engine", "code": "gone", "message": "the engine is gone", "retryable": False}
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        "_ng_attempt_index": 0,
        "_ng_failure_class": kind,
        "_ng_failure_terminal": True,
        "_ng_outcome": "failed",
        "agent_ref": {"type": "responses_api_agents", "name": agent},
        "_ng_failure": error,
        **fields,
    }


def judge_failure_row(task: int, repeat: int = 0, *, agent: str = AGENT, **fields: Any) -> dict[str, Any]:
    attempt = scored_row(task, repeat, agent=agent)
    del attempt["reward"]
    failed = failure_row(task, repeat, "judge_failed", agent=agent, _ng_failure_judge_error="no verdict")
    return attempt | failed | fields


def store(
    path: Path,
    rows: list[dict[str, Any]],
    failures: list[dict[str, Any]] | None = None,
    *,
    tasks: bool = True,
) -> Path:
    """The files of a run whose rows are at `path`; `tasks` says whether it has materialized inputs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, rows)
    _write(path.with_name(f"{path.stem}_failures.jsonl"), failures or [])
    if tasks:
        sent = [
            {
                "_ng_task_index": row["_ng_task_index"],
                "_ng_rollout_index": row["_ng_rollout_index"],
                **task_row(row["_ng_task_index"], agent=row["agent_ref"]["name"]),
            }
            for row in sorted([*rows, *(failures or [])], key=identity_of)
        ]
        _write(path.with_name(f"{path.stem}_materialized_inputs.jsonl"), sent)
    return path


def identity_of(row: dict[str, Any]) -> RolloutId:
    return RolloutId(row["_ng_task_index"], row["_ng_rollout_index"])


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def rows_of_agents(rewards: dict[str, list[list[float]]]) -> list[dict[str, Any]]:
    """The rows of one run of several agents on the same tasks: by agent and task the rewards of its rollouts."""
    return [
        scored_row(task, number * len(rewards) + place, reward, agent=agent)
        for place, (agent, tasks) in enumerate(rewards.items())
        for task, own in enumerate(tasks)
        for number, reward in enumerate(own)
    ]
