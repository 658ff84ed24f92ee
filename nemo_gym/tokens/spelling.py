"""The sampled text of tool calls, put back into requests.

Most agents parse the arguments of a tool call and write them again when they send the call back, with other white space
or escapes. The engine would then read a prompt that differs from the sampled tokens. A server remembers the sampled
text of each call of a session, and puts it in the place of arguments of equal value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_gym.responses.arguments import canonical_arguments


class SampledArguments:
    """The arguments of a session's tool calls as they were sampled, by call id."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, answer: Mapping[str, Any]) -> None:
        """Remember the tool calls of an answer, a chat message."""
        for call in answer.get("tool_calls") or ():
            name, arguments = call.get("id"), (call.get("function") or {}).get("arguments")
            if isinstance(name, str) and isinstance(arguments, str):
                self._texts[name] = arguments

    def restored(self, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return chat messages with the sampled arguments in the place of other texts of the same value."""
        return [self._restored_message(message) for message in messages] if self._texts else list(messages)

    def _restored_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        calls = message.get("tool_calls")
        if not calls:
            return message
        restored = [self._restored_call(call) for call in calls]
        return {**message, "tool_calls": restored} if restored != calls else message

    def _restored_call(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        function, sampled = call.get("function") or {}, self._texts.get(str(call.get("id")))
        given = function.get("arguments")
        if sampled is None or given == sampled or not isinstance(given, str):
            return call
        if canonical_arguments(given) != canonical_arguments(sampled):
            return call
        return {**call, "function": {**function, "arguments": sampled}}
