"""Traces of verifiers (version 1 of its `traces.jsonl`) as scored rows.

A line is an episode, which has a trace for each seat. A trace is a graph of messages, each of which has the tokens that
it adds to those before it. Its row is the path that ends at the last message: the messages before the first one of the
policy are the request, the others the response. verifiers rounds the log-probabilities in its files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.json_objects import finite_number, member
from nemo_gym.responses import convert_chat_request
from nemo_gym.rows.compose import compose_foreign_row
from nemo_gym.sources.reading import ReadTrajectory, build_response, describe_tokens
from nemo_gym.tokens.records import CONTRACT_FIELDS, CallTokens, find_tokens_fault

VERSION: Final = 1
_READ: Final = frozenset(
    {
        *("version", "id", "task", "agent", "tools", "nodes", "calls", "rewards", "is_completed", "ok"),
        *("stop_condition", "is_truncated", "timing", "env", "build", "reward"),
    }
)
"""The members of a trace that a row has a place for, and those that follow from others or vary with every run."""
_READ_OF_NODES: Final = frozenset(
    {"parent", "tools", "message", "sampled", "timestamp", "token_ids", "mask", "logprobs"}
)


def find_traces(content: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the traces of an episode, or the trace that `content` is; nothing for anything else."""
    traces = member(content, "traces")
    for trace in traces if isinstance(traces, list) else [content]:
        if isinstance(member(trace, "nodes"), list) and member(trace, "version") is not None:
            yield trace


def list_task_names(trace: Mapping[str, Any]) -> list[str]:
    """Return the names that the task of a trace may have, the surest first."""
    task = trace.get("task")
    names = [member(task, "key"), *(member(task, "data", name) for name in ("task_id", "id", "name", "idx"))]
    return [str(name) for name in names if name is not None]


def read_trace(trace: Mapping[str, Any], place: str) -> ReadTrajectory:
    """Read a trace as a row. Raises ConfigError for one of another version, and for one without an answer."""
    if trace["version"] != VERSION:
        raise _refuse(place, f"version {trace['version']} is not {VERSION}")
    try:
        path = _find_path(trace["nodes"])
        given, output, calls = _convert(path)
    except (InputError, LookupError, TypeError, ValueError) as error:
        raise _refuse(place, f"{type(error).__name__}: {error}") from error
    if not calls:
        raise _refuse(place, "the policy wrote no message")
    agent = str(member(trace, "agent", "name") or "agent")
    whole = sum(map(_has_tokens, output))
    about = {
        "format": f"verifiers-{VERSION}",
        "agent": agent,
        "tokens": describe_tokens(calls, whole),
        **({"trajectory": str(trace["id"])} if "id" in trace else {}),
    }
    tools = [{"type": "function", "strict": False, **tool} for tool in path[0].get("tools") or ()]
    params = {"input": given, **({"tools": tools} if tools else {})}
    response = build_response(str(trace.get("id") or place), _find_model(trace), output)
    row = compose_foreign_row(params, response, agent, _read_reward(trace), about)
    return ReadTrajectory(dict(row), is_ours=False, lost=Counter(_list_lost(trace, len(path))))


def _refuse(place: str, told: str) -> ConfigError:
    return ConfigError(f"{place} is no trace of verifiers: {told}", code="invalid_trajectory")


def _find_path(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages from a root to the last message. Raises ValueError for a path that has no root."""
    path: list[Mapping[str, Any]] = []
    place: int | None = len(nodes) - 1
    while place is not None:
        if not 0 <= place < len(nodes) or len(path) > len(nodes):
            raise ValueError(f"message {place} is no message of the graph")
        path.append(nodes[place])
        place = nodes[place].get("parent")
    return path[::-1]


def _convert(path: Sequence[Mapping[str, Any]]) -> tuple[list[Any], list[Any], int]:
    """Return the items of the request, those of the response, and the number of the policy's messages."""
    given: list[Any] = []
    output: list[Any] = []
    ids: list[int] = []
    calls = 0
    for node in path:
        items: list[Any] = convert_chat_request({"messages": [_nest_calls(node["message"])]}).body["input"]
        before = len(ids)
        ids += node.get("token_ids") or ()
        if node.get("sampled"):
            calls += 1
            items = [_complete(item, f"{calls}_{number}") for number, item in enumerate(items)]
            items[-1] |= _read_tokens(node, ids, before)
        (output if calls else given).extend(items)
    return given, output, calls


def _nest_calls(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of Chat Completions: the tool calls of verifiers are flat."""
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {name: call[name] for name in ("name", "arguments")},
        }
        for call in message.get("tool_calls") or ()
    ]
    kept = {name: message.get(name) for name in ("role", "content", "reasoning_content", "tool_call_id")}
    return {
        **{name: value for name, value in kept.items() if value is not None},
        **({"tool_calls": calls} if calls else {}),
    }


def _complete(item: Mapping[str, Any], number: str) -> dict[str, Any]:
    """Return an item of a request as one of an answer, which has an id and a status."""
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, str):
        content = [{"type": "output_text", "text": content, "annotations": []}]
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    return {"id": f"item_{number}", "status": "completed", **item}


def _read_tokens(node: Mapping[str, Any], ids: Sequence[int], before: int) -> dict[str, Any]:
    """Return the tokens of a call; nothing unless they are whole.

    `ids` are those of the path; the node's begin at `before`.
    """
    mask, logprobs = node.get("mask") or [], node.get("logprobs") or []
    sampled = sum(map(bool, mask))
    begins = before + len(mask) - sampled
    if not sampled or len(mask) != len(ids) - before or not all(mask[len(mask) - sampled :]):
        return {}
    tokens = CallTokens(list(ids[:begins]), list(ids[begins:]), list(logprobs))
    if not tokens.prompt or find_tokens_fault(tokens) is not None:
        return {}
    return dict(zip(CONTRACT_FIELDS, tokens, strict=True))


def _has_tokens(item: Mapping[str, Any]) -> bool:
    return CONTRACT_FIELDS[0] in item


def _read_reward(trace: Mapping[str, Any]) -> float | None:
    """Return the sum of the weighted rewards; None for a trace that was not scored, or that failed."""
    rewards = trace.get("rewards") or {}
    scores = [finite_number(member(reward, "score")) for reward in rewards.values()]
    if not scores or None in scores or trace.get("ok") is False:
        return None
    weights = [finite_number(reward.get("weight", 1.0)) or 0.0 for reward in rewards.values()]
    return float(
        sum(score * weight for score, weight in zip(scores, weights, strict=True) if score is not None)
    )


def _find_model(trace: Mapping[str, Any]) -> str:
    named = (member(call, "model") for call in trace.get("calls") or ())
    return next((str(name) for name in named if name), "unknown")


def _list_lost(trace: Mapping[str, Any], kept: int) -> Iterator[str]:
    """Yield the members of a trace that its row has no place for."""
    yield from (name for name, value in trace.items() if name not in _READ and value not in (None, [], {}))
    yield from ["nodes of other branches"] * (len(trace["nodes"]) - kept)
    for node in trace["nodes"]:
        yield from (
            f"nodes.{name}"
            for name, value in node.items()
            if name not in _READ_OF_NODES and value not in (None, [], {})
        )
