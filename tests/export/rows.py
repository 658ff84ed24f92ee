"""Scored rows to export: small ones by hand, and rows of random conversations with tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import orjson

from nemo_gym.export._writing import DOCUMENT, find_ending
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.export.report import Report
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rows.calls import mark_shared_calls, read_calls
from nemo_gym.rows.keys import FORK_KEY
from tests.tokens.conversations import TOOLS, Ground, converse

AGENT = "weather_agent"
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}


def text(words: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": words, "annotations": []}],
    }


def thought(words: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": words}]}


def call(city: str, call_id: str = "call_x", arguments: str | None = None) -> dict[str, Any]:
    written = orjson.dumps({"city": city}).decode() if arguments is None else arguments
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": call_id,
        "name": "get_weather",
        "arguments": written,
    }


def output(words: str, call_id: str = "call_x") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": words}


def row(
    task: int = 0,
    repeat: int = 0,
    reward: Any = 1.0,
    items: Iterable[dict[str, Any]] = (),
    *,
    prompt: Any = None,
    tools: list[dict[str, Any]] | None = None,
    tokens: int | None = 10,
    **fields: Any,
) -> dict[str, Any]:
    """A scored row as our agents write it; without `items` the policy answers with its reward."""
    params: dict[str, Any] = {"input": f"Question {task}?" if prompt is None else prompt}
    if tools is not None:
        params["tools"] = tools
    said = list(items) or [text(f"answer {task}/{repeat}")]
    response: dict[str, Any] = {"object": "response", "output": said}
    if tokens is not None:
        response["usage"] = {"input_tokens": 5, "output_tokens": tokens, "total_tokens": 5 + tokens}
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": repeat,
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        "responses_create_params": params,
        "response": response,
        "reward": reward,
        "_ng_outcome": "completed",
        **fields,
    }


def two_agents(*rewards: tuple[float, float], tasks: int = 1) -> list[dict[str, Any]]:
    """Rows with tokens of tasks that the agents `a` and `b` attempt in turn: a reward of each by repeat."""
    rows = []
    for task in range(tasks):
        for number, reward in enumerate(each for pair in rewards for each in pair):
            sampled = {
                "prompt_token_ids": [1],
                "generation_token_ids": [number],
                "generation_log_probs": [-0.5],
            }
            agent = {"agent_ref": {"type": "responses_api_agents", "name": "ab"[number % 2]}}
            said = text(f"{'ab'[number % 2]} {number}") | sampled
            rows.append(row(task, number, reward, [said]) | agent)
    return rows


def failed(task: int = 0, repeat: int = 0) -> dict[str, Any]:
    """A failed judge answers with a reward of 0 and a failure class."""
    return row(task, repeat, 0.0, _ng_failure_class="judge_failed")


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))
    return path


def exported(
    tmp_path: Path,
    format: str,
    rows: Iterable[dict[str, Any]],
    *,
    name: str = "out.jsonl",
    **settings: Any,
) -> tuple[list[dict[str, Any]], Report]:
    """Return the rows that an export of `rows` writes, and its report."""
    given = write(tmp_path / "rollouts.jsonl", rows)
    report = export(
        ExportSettings(format=format, inputs=[given], output=tmp_path / name, overwrite=True, **settings)
    )
    assert report.read == report.exported + report.left_out.total()
    return read(tmp_path / name), report


def read(path: Path) -> list[dict[str, Any]]:
    if find_ending(path) == ".parquet":
        import pyarrow.parquet

        found: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
        return found
    if find_ending(path) == DOCUMENT:
        samples: list[dict[str, Any]] = orjson.loads(path.read_bytes())["samples"]
        return samples
    return [orjson.loads(line.content) for line in read_lines(path)]


async def token_rows(tasks: int, repeats: int, kind: str = "steady", **ground: Any) -> list[dict[str, Any]]:
    """Rows of random conversations with an engine that gives token ids."""
    engine, rng = Ground(**ground), Random(kind)
    rows = []
    for task in range(tasks):
        for repeat in range(repeats):
            chat = await converse(engine, rng, f"{kind}/{task}/{repeat}", users=1)
            asked = [{"role": "user", "content": f"Question {task}?"}]
            items = list(chat.output)
            rows.append(
                row(task, repeat, float(rng.randint(0, 3)), items, prompt=asked, tools=TOOLS, tokens=None)
            )
    return rows


SHARED = 1
"""The calls that forks share with their parent."""


def fork_rows() -> list[dict[str, Any]]:
    """Two forks each of four parents, which share their first call. Their texts differ, and their reward: 0 and 1."""
    parents = [
        each
        for each in asyncio.run(token_rows(12, 1))
        if len(calls := read_calls(each)) > SHARED + 1 and all(call.untrained is None for call in calls)
    ][:4]
    made = []
    for parent in parents:
        task = parent["_ng_task_index"]
        for number in range(2):
            about = {"parent": [task, 0], "turn": SHARED, "number": number, "group": f"{task}.0@{SHARED}"}
            fork = {**mark_shared_calls(parent, SHARED), FORK_KEY: about, "_ng_rollout_index": number}
            answer = {**parent["response"]["output"][-1]}
            answer["content"] = [{"type": "output_text", "text": f"fork {number}", "annotations": []}]
            said = [*fork["response"]["output"][:-1], answer]
            made.append({**fork, "reward": float(number), "response": {**fork["response"], "output": said}})
    assert len(made) == 8
    return made


def read_own(row: dict[str, Any]) -> list[int]:
    """The tokens that a fork sampled itself."""
    return [token for call in read_calls(row)[SHARED:] if call.tokens for token in call.tokens.generated]
