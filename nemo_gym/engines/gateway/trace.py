"""A recorded rollout as one Responses object, which verifiers and exports read like that of any agent.

Its output holds the answers and tool outputs of the main conversation, in order. Every call has its token record on
one item. Calls beside the main conversation, such as those of subagents, are reasoning items without text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from nemo_gym.responses.messages_request import dump_arguments
from nemo_gym.responses.schemas import add_counts
from nemo_gym.responses.turns import join_item_texts
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, TokenForm

_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def build_trace(
    lines: Sequence[Mapping[str, Any]],
    records: Mapping[str, CallRecord],
    main: Collection[str],
) -> dict[str, Any] | None:
    """Return the Responses object of recorded calls; None if none was answered. `main` are those of the main path.

    Its usage is that of all answered calls together.
    """
    output: list[dict[str, Any]] = []
    usage: dict[str, int] = {}
    model = ""
    for line in lines:
        call = line["model_call_id"]
        if line["status_code"] != 200:
            continue
        usage = add_counts(usage, _read_usage(line["response"]))
        items = _build_hidden_reasoning(call)
        if call in main:
            model = line["response"].get("model") or model
            output += _tool_outputs(line["request"]["items"])
            items = list(_answer_items(line["response"], call)) or items
        if call in records:
            record = records[call].to_wire(TokenForm.PACKED)
            items[-1] = {**items[-1], RECORD_FIELD: record}
        elif call not in main:
            continue
        output += items
    if not output:
        return None
    about = {"id": "resp_rollout", "object": "response", "created_at": int(lines[0]["started_at"])}
    fixed = {"status": "completed", "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**about, "model": model, "output": output, "usage": usage or None, **fixed}


def _read_usage(answer: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of an answer of any API by the names of the Responses API; nothing if they are unknown."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return {}
    given = int(usage.get("input_tokens") or usage.get("prompt_tokens") or 0)
    sampled = int(usage.get("output_tokens") or usage.get("completion_tokens") or 0)
    return {"input_tokens": given, "output_tokens": sampled, "total_tokens": given + sampled}


def _build_hidden_reasoning(call: str) -> list[dict[str, Any]]:
    return [{"type": "reasoning", "id": f"rs_{call}", "summary": []}]


def _tool_outputs(items: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the outputs of tools among the messages or items that a call added."""
    for item in items:
        if not isinstance(item, Mapping):
            continue
        if item.get("type") in _OUTPUTS:
            yield _tool_output(item.get("call_id"), item.get("output"))
        elif item.get("role") == "tool":
            yield _tool_output(item.get("tool_call_id"), item.get("content"))
        for block in item["content"] if isinstance(item.get("content"), list) else ():
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                yield _tool_output(block.get("tool_use_id"), block.get("content"))


def _tool_output(call_id: object, content: object) -> dict[str, Any]:
    text = join_item_texts([{"content": content}])
    return {"type": "function_call_output", "call_id": str(call_id), "output": text}


def _answer_items(answer: Mapping[str, Any], call: str) -> Iterator[dict[str, Any]]:
    if isinstance(answer.get("output"), list):
        for item in answer["output"]:
            if item.get("type") == "custom_tool_call":
                yield _function_call(item["call_id"], item["name"], dump_arguments({"input": item["input"]}))
            else:
                yield item
        return
    choices = answer.get("choices")
    message = choices[0]["message"] if choices else {"content": answer.get("content")}
    content = message.get("content") or []
    for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if block.get("type") == "text":
            part = {"type": "output_text", "text": block["text"], "annotations": []}
            about = {"type": "message", "id": f"msg_{call}", "role": "assistant", "status": "completed"}
            yield {**about, "content": [part]}
        elif block.get("type") == "tool_use":
            yield _function_call(block["id"], block["name"], dump_arguments(block["input"]))
    for each in message.get("tool_calls") or ():
        yield _function_call(each["id"], each["function"]["name"], each["function"]["arguments"])


def _function_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
