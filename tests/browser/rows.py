"""Rows of made runs: every type of item, hostile strings, tokens, long rollouts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.clock import log_time

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

ITEMS: list[Any] = [
    {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "a plan"}],
        "encrypted_content": "abc",
    },
    {"type": "function_call", "call_id": "c", "name": "search", "arguments": '{"q": "needle"}'},
    {"type": "function_call_output", "call_id": "c", "output": "found it"},
    {"type": "custom_tool_call", "call_id": "d", "name": "shell", "input": "ls -la"},
    {"type": "custom_tool_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "files"}]},
    {
        "type": "mcp_call",
        "server_label": "books",
        "name": "lookup",
        "arguments": "{not json",
        "output": "a book",
    },
    {"type": "code_interpreter_call", "code": "print(1)", "outputs": [{"type": "logs", "logs": "one"}]},
    {"type": "web_search_call", "action": {"query": "a question"}},
    {"type": "image_generation_call", "result": PIXEL},
    {"type": "local_shell_call", "action": {"command": ["true"]}},
    {"type": "from_the_future", "content": [1, {"deep": None}]},
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_image", "image_url": "https://example.com/i.png"}],
    },
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]},
    {"no": "type"},
    "a string",
    None,
]


def row_of(task: int, rollout: int, output: list[Any], reward: float = 1.0, **fields: Any) -> dict[str, Any]:
    """Return a row with the keys that the collector writes."""
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "_ng_attempt_index": 0,
        "responses_create_params": {"input": [{"role": "user", "content": f"Question {task}"}]},
        "agent_ref": {"type": "responses_api_agents", "name": "an_agent"},
        "reward": reward,
        **fields,
        "response": {"output": output, "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}},
        "_ng_outcome": "completed",
        "_ng_end_reason": "final_answer",
        "_ng_timing": {"act": 1.5, "verify": 0.5, "total": 2.0},
    }


def message(text: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
        **fields,
    }


def sampled(text: str, prompt: list[int], ids: list[int], logprobs: list[float]) -> dict[str, Any]:
    """Return a message with the token ids of its call."""
    names = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
    return message(text, **dict(zip(names, (prompt, ids, logprobs), strict=True)))


FAILED_AT = 1_777_660_200.0
"""The time of all failures, in seconds since 1970."""


def write_log(rows: Path, server: str, *lines: str, planned: int = 12) -> None:
    """Write a manifest of a run that was killed, and a log with lines of the time of its failures."""
    folder = rows.parent / "logs"
    folder.mkdir(exist_ok=True)
    stamp = log_time(FAILED_AT - 1)
    (folder / f"{server}.log").write_text("".join(f"{stamp} {line}\n" for line in lines), encoding="utf-8")
    start = {"started_at": "2026-05-01T18:29:00+00:00", "planned": planned, "logs": "logs"}
    manifest = {"schema_version": 1, "identity": {}, "starts": [start]}
    rows.with_name(f"{rows.stem}_run.json").write_text(json.dumps(manifest), encoding="utf-8")


def write_run(
    path: Path, rows: Iterable[Mapping[str, Any]], failures: Iterable[Mapping[str, Any]] = ()
) -> Path:
    """Write rows, and failures beside them."""
    for file, content in ((path, rows), (path.with_name(f"{path.stem}_failures.jsonl"), failures)):
        file.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    return path


def failure_of(task: int, attempt: int, **failure: Any) -> dict[str, Any]:
    row = row_of(task, 0, [], _ng_failure_class="timeout", _ng_failure=failure, _ng_failed_at=FAILED_AT)
    del row["reward"]
    return row | {"_ng_outcome": "failed", "_ng_attempt_index": attempt}


LOST_AT = FAILED_AT - 0.25
"""The time at which the node was lost of `nodes_document`."""


def nodes_document(**changes: Any) -> dict[str, Any]:
    """Return a `nodes.json` of two machines, the second of which was lost before the failures."""
    machine = {"address": "10.0.0.7", "load": 1.25, "in_flight": 3, "most_in_flight": 12, "restarts": 1}
    here = {"name": "node1", "state": "up", "losses": 0, "log": "node_node1.log", "generation": 2}
    lost = {"name": "node2", "state": "lost", "losses": 1, "log": "node_node2.log", "generation": 0}
    replica = {"server": "policy", "node": "node1", "state": "ready", "restarts": 0}
    events = [
        ("lost", "the node node2 was lost, with policy #1", "node2"),
        ("moved", "policy #1 moved to node1, from node2; its generation is 2", "node1"),
    ]
    return {
        "at": FAILED_AT + 5,
        "ended_at": None,
        "nodes": [{**machine, **here, "replicas": {"policy": 2}}, {**machine, **lost, "replicas": {}}],
        "replicas": [
            {**replica, "replica": number, "generation": number + 1, "log": f"policy.{number}.log"}
            for number in range(2)
        ],
        "events": [
            {"at": LOST_AT + number, "kind": kind, "text": text, "node": node, "replicas": [["policy", 1]]}
            for number, (kind, text, node) in enumerate(events)
        ],
        "left_out": 0,
        **changes,
    }


def write_nodes(rows: Path, document: Mapping[str, Any] | None = None) -> None:
    """Write a manifest and logs like `write_log`, and the nodes of the gym with their logs."""
    for name in ("node_node1", "node_node2", "policy.0", "policy.1"):
        write_log(rows, name, f"INFO launcher: a line of {name}")
    content = json.dumps(nodes_document() if document is None else document)
    (rows.parent / "logs" / "nodes.json").write_text(content, encoding="utf-8")


def write_manifest(
    rows: Path, model: str, counts: Mapping[str, int], *, end: str = "complete", tags: Iterable[str] = ()
) -> None:
    """Write the manifest of a run of one start, beside its rows."""
    agent = {"resources_server": {"name": "shop"}, "model_server": {"name": "policy_model"}}
    config = {
        "policy_model": {"responses_api_models": {"vllm_model": {"model": model}}},
        "shop_agent": {"responses_api_agents": {"simple_agent": agent}},
    }
    start = {
        "started_at": "2026-05-01T18:30:00+00:00",
        "end": end,
        "counts": counts,
        "settings": {"tags": [*tags]},
    }
    identity = {"config": config, "responses_create_params": {"temperature": 0.7}}
    manifest = {"schema_version": 1, "identity": identity, "starts": [start]}
    rows.with_name(f"{rows.stem}_run.json").write_text(json.dumps(manifest))
