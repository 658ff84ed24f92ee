"""The sampled text of answers, put back into requests.

Most agents write an answer anew when they send it back: they parse the arguments of a tool call, strip a text, or split
it into parts. The engine would then read a prompt that differs from the sampled tokens. A server remembers the answers
of a session, and puts the sampled text in the place of a turn that says the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from nemo_gym.responses.arguments import canonical_arguments

_MOST_TEXTS = 256


class SampledTurns:
    """The texts of a session's answers as they were sampled, and the arguments of tool calls by call id."""

    def __init__(self) -> None:
        self._arguments: dict[str, str] = {}
        self._texts: OrderedDict[str, list[str]] = OrderedDict()
        """Text without white space at its ends → the texts that were sampled so."""
        self._asked: Sequence[Mapping[str, Any]] = ()
        """The messages of the last request; a later one with the same objects has said the same before."""
        self._restored: list[Mapping[str, Any]] = []

    def add(self, answer: Mapping[str, Any]) -> None:
        """Remember an answer, a chat message."""
        text = answer.get("content")
        if isinstance(text, str) and text.strip():
            known = self._texts.setdefault(text.strip(), [])
            if text not in known:
                known.append(text)
            if len(self._texts) > _MOST_TEXTS:
                self._texts.popitem(last=False)
        for call in answer.get("tool_calls") or ():
            name, arguments = call.get("id"), (call.get("function") or {}).get("arguments")
            if isinstance(name, str) and isinstance(arguments, str):
                self._arguments[name] = arguments

    def restore_messages(self, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return chat messages with the sampled texts in the place of others that say the same."""
        if not self._arguments and not self._texts:
            return list(messages)
        known = len(self._asked) if all(map(is_, self._asked, messages)) else 0
        if known > len(messages):
            known = 0
        added = [self._restore_message(message) for message in messages[known:]]
        self._asked, self._restored = [*messages], [*self._restored[:known], *added]
        return [*self._restored]

    def _restore_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if message.get("role") != "assistant":
            return message
        content = self._restore_content(message.get("content"))
        calls = message.get("tool_calls")
        restored = [self._restore_call(call) for call in calls] if calls else calls
        if content == message.get("content") and restored == calls:
            return message
        changed = {"content": content} if "content" in message else {}
        return {**message, **changed, **({"tool_calls": restored} if calls else {})}

    def _restore_content(self, content: Any) -> Any:
        text = join_texts(content)
        known = self._texts.get(text.strip()) if text is not None else None
        return content if known is None or content in known else known[-1]

    def _restore_call(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        function, sampled = call.get("function") or {}, self._arguments.get(str(call.get("id")))
        given = function.get("arguments")
        if sampled is None or given == sampled or not isinstance(given, str):
            return call
        if canonical_arguments(given) != canonical_arguments(sampled):
            return call
        return {**call, "function": {**function, "arguments": sampled}}


def join_texts(content: Any) -> str | None:
    """Return the text of a message's content; None if it has parts that are no text."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    texts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
    return "".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else None
