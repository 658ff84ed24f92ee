"""The messages of a sample as steps of a trajectory, and back.

A step of an agent is an assistant's message with the tools' messages that answer it. Both have text, images and audio
as contents; the others are named in the text and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nemo_gym.json_objects import member
from nemo_gym.sources.atif.media import MediaFolder

Message = dict[str, Any]
Step = dict[str, Any]
_ROLES = {"system": "system", "user": "user", "assistant": "agent"}
_LOST_OF_MESSAGES = ("metadata",)
_LOST_OF_CALLS = ("parse_error", "view")


def write_messages(step: Step) -> list[Message]:
    """Return the messages of a step."""
    results = member(step, "observation", "results") or []
    named = {call["tool_call_id"]: call["function_name"] for call in step.get("tool_calls") or ()}
    answers = [_write_result(result, named) for result in results]
    if step["source"] != "agent":
        said = {"role": step["source"], "content": _write_content(step["message"])}
        return [said, *answers] if step["message"] or not answers else answers
    content = _write_content(step["message"])
    if (reasoning := step.get("reasoning_content")) is not None:
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}] * bool(content)
        content = [{"type": "reasoning", "reasoning": reasoning}, *parts]
    source = "input" if step.get("is_copied_context") else "generate"
    message: Message = {"role": "assistant", "content": content, "source": source}
    if calls := step.get("tool_calls"):
        message["tool_calls"] = [_write_call(call) for call in calls]
    return [message, *answers]


def _write_call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": call["tool_call_id"],
        "function": call["function_name"],
        "arguments": call["arguments"],
        "type": "function",
    }


def _write_result(result: Mapping[str, Any], named: Mapping[str, str]) -> Message:
    message: Message = {"role": "tool", "content": _write_content(result.get("content") or "")}
    if (call := result.get("source_call_id")) is not None:
        message |= {"tool_call_id": call, "function": named.get(call)}
    return message


def _write_content(content: Any) -> Any:
    return content if isinstance(content, str) else [_write_part(part) for part in content]


def _write_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    path, kind = part["source"]["path"], part["source"]["media_type"]
    if part["type"] == "image":
        return {"type": "image", "image": path}
    return {"type": "audio", "audio": path, "format": {"audio/mpeg": "mp3"}.get(kind, kind.partition("/")[2])}


class StepReader:
    """Reads messages as steps, and counts what steps have no place for."""

    def __init__(self, media: MediaFolder) -> None:
        self._media = media
        self.lost: Counter[str] = Counter()
        """Field or kind of content → how many."""

    def read(self, messages: Iterable[Message]) -> list[Step]:
        """Return the steps of a sample's messages."""
        steps: list[Step] = []
        calls: dict[str, Step] = {}
        for message in messages:
            self._count(message)
            role = str(message.get("role"))
            if role == "tool":
                self._add_result(steps, calls, message)
                continue
            step: Step = {"step_id": len(steps) + 1, "source": _ROLES.get(role, "user")}
            step |= {"message": self._read_content(message.get("content"), is_answer=role == "assistant")}
            if role == "assistant":
                self._fill(step, message)
                calls |= {call["tool_call_id"]: step for call in step.get("tool_calls", ())}
            steps.append(step)
        return steps

    def _count(self, message: Message) -> None:
        self.lost.update(f"messages.{name}" for name in _LOST_OF_MESSAGES if message.get(name))
        for call in message.get("tool_calls") or ():
            self.lost.update(f"tool_calls.{name}" for name in _LOST_OF_CALLS if call.get(name))

    def _fill(self, step: Step, message: Message) -> None:
        parts = message["content"] if isinstance(message.get("content"), list) else []
        thoughts = [part for part in parts if part.get("type") == "reasoning"]
        if thoughts:
            texts = (str(part.get("reasoning") or part.get("summary") or "") for part in thoughts)
            step["reasoning_content"] = "\n\n".join(texts)
            self.lost.update("reasoning.signature" for part in thoughts if part.get("signature"))
        if message.get("tool_calls"):
            step["tool_calls"] = [
                {
                    "tool_call_id": str(call.get("id") or ""),
                    "function_name": str(call.get("function") or ""),
                    "arguments": call["arguments"] if isinstance(call.get("arguments"), dict) else {},
                }
                for call in message["tool_calls"]
            ]
        if message.get("source") == "input":
            step["is_copied_context"] = True

    def _add_result(self, steps: list[Step], calls: Mapping[str, Step], message: Message) -> None:
        call = message.get("tool_call_id")
        told = member(message, "error", "message")  # the policy read it in the place of the content
        content = told if isinstance(told, str) else self._read_content(message.get("content"))
        result: dict[str, Any] = {"content": content}
        step = calls.get(str(call))
        if step is None:
            step = {"step_id": len(steps) + 1, "source": "system", "message": ""}
            steps.append(step)
        else:
            result = {"source_call_id": call, **result}
        step.setdefault("observation", {"results": []})["results"].append(result)

    def _read_content(self, content: Any, *, is_answer: bool = False) -> Any:
        if isinstance(content, str) or content is None:
            return content or ""
        parts = [self._read_part(part) for part in content if part.get("type") != "reasoning"]
        if not is_answer or len(parts) > 1 or (parts and parts[0]["type"] != "text"):
            return parts
        return parts[0]["text"] if parts else ""

    def _read_part(self, part: Mapping[str, Any]) -> dict[str, Any]:
        kind = part.get("type")
        if kind == "text":
            return {"type": "text", "text": str(part.get("text") or "")}
        source = None
        if kind == "image":
            source = self._media.keep_image(str(part.get("image")))
        elif kind == "audio":
            data = self._media.read_data(str(part.get("audio")))
            source = None if data is None else self._media.keep_audio(data, str(part.get("format")))
        if source is not None:
            return {"type": kind, "source": source}
        self.lost[f"content:{kind}"] += 1
        return {"type": "text", "text": f"[{kind}]"}


def split_given(steps: Sequence[Step]) -> int:
    """Return the number of steps before the first answer of the policy."""
    answers = (
        number
        for number, step in enumerate(steps)
        if step["source"] == "agent" and not step.get("is_copied_context")
    )
    return next(answers, len(steps))
