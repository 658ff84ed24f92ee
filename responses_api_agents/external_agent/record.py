"""The record that a model server keeps of an attempt's calls, and the output items that it amounts to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import orjson

from nemo_gym import clock
from nemo_gym.agents.policy import without_tokens
from nemo_gym.episodes.driver import require_ok
from nemo_gym.responses.responses_answer import output_items_of
from nemo_gym.tokens.records import RECORD_FIELD
from nemo_gym.transport.context import RequestContext, current_context
from nemo_gym.transport.control import ROLLOUT_RECORDS
from nemo_gym.transport.server_client import ServerClient

_OUTPUT_TYPES = frozenset({"function_call_output", "custom_tool_call_output"})


class AttemptRecord:
    """The record of one attempt at its model server."""

    def __init__(self, client: ServerClient, model: str, rollout_id: str) -> None:
        self._client = client
        self._model = model
        self._rollout_id = rollout_id

    async def open(self, **terms: Any) -> tuple[str, str]:
        """Open the record and return the key of the attempt's calls, and the path that begins them."""
        stated = {name: value for name, value in terms.items() if value is not None}
        opened = await self._ask("POST", "", {"rollout_id": self._rollout_id, **stated})
        return opened["key"], opened["base_url_path"]

    async def seal(self) -> list[dict[str, Any]]:
        """Refuse further calls, cancel those in flight, and return the recorded ones in their order."""
        place = "/" + quote(self._rollout_id, safe="")
        await self._ask("POST", place + "/seal", {})
        read = await self._ask("GET", place)
        calls: list[dict[str, Any]] = read["calls"]
        return calls

    async def _ask(self, method: str, place: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with _driving():
            reply = await self._client.request(
                method, self._model, ROLLOUT_RECORDS + place, json=body, repeatable=True
            )
        require_ok(reply, self._model, "keep the record of an attempt")
        answer: dict[str, Any] = orjson.loads(reply.body)
        return answer


@contextmanager
def _driving() -> Iterator[None]:
    """Within the block, control routes can be called: the program in the sandbox has no say in them."""
    context = current_context.get()
    own = RequestContext(context.session, context.deadline, context.incarnations) if context else None
    reset = current_context.set(own)
    try:
        yield
    finally:
        current_context.reset(reset)


def output_of_calls(calls: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the output items of all answered calls, with the results of their tools between them.

    The last item of each call holds its token record.
    """
    output: list[dict[str, Any]] = []
    waiting: set[str] = set()
    for call in calls:
        answer = call.get("response")
        if call.get("status_code") != 200 or not isinstance(answer, Mapping):
            continue
        for item in _results_in(call.get("request") or {}):
            if item["call_id"] in waiting:
                waiting.discard(item["call_id"])
                output.append(item)
        items = _items_of(str(call.get("dialect")), answer)
        if items and call.get("tokens"):
            items = [without_tokens(item) for item in items]
            items[-1] = {**items[-1], RECORD_FIELD: call["tokens"]}
        waiting |= {str(item["call_id"]) for item in items if item.get("call_id")}
        output += items
    return output


def _items_of(dialect: str, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the output items of an answer of any API."""
    if dialect == "responses":
        return list(answer.get("output") or ())
    if dialect == "messages":
        message = _message_of_blocks(answer.get("content") or ())
    else:
        message = next((choice["message"] for choice in answer.get("choices") or ()), {})
    return output_items_of(message, ids=lambda prefix: f"{prefix}_{clock.hex_id()}").items


def _message_of_blocks(blocks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an answer of the Messages API as a chat message."""
    found = list(blocks)
    calls = [
        {
            "type": "function",
            "id": block["id"],
            "function": {"name": block["name"], "arguments": orjson.dumps(block["input"]).decode()},
        }
        for block in found
        if block.get("type") == "tool_use"
    ]
    text = "".join(block["text"] for block in found if block.get("type") == "text")
    thought = "".join(block.get("thinking") or "" for block in found if block.get("type") == "thinking")
    return {"content": text or None, "reasoning": thought or None, "tool_calls": calls}


def _results_in(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results of tools in a request of any API, as items."""
    given = request.get("input")
    for item in given if isinstance(given, list) else ():
        if item.get("type") in _OUTPUT_TYPES:
            yield _result(item.get("call_id"), item.get("output"))
    for message in request.get("messages") or ():
        if message.get("role") == "tool":
            yield _result(message.get("tool_call_id"), message.get("content"))
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                yield _result(block.get("tool_use_id"), block.get("content"))


def _result(call_id: Any, content: Any) -> dict[str, Any]:
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return {"type": "function_call_output", "call_id": str(call_id), "output": str(content or "")}


def usage_of(answer: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the tokens of an answer of any API, in the form of the Responses API."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return None
    given = int(usage.get("input_tokens") or usage.get("prompt_tokens") or 0)
    sampled = int(usage.get("output_tokens") or usage.get("completion_tokens") or 0)
    return {"input_tokens": given, "output_tokens": sampled, "total_tokens": given + sampled}
