"""The tool calls of an attempt that failed, read from the answers of the environment's MCP endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from nemo_gym.agents.tool_answers import classify_answer
from nemo_gym.agents.tools import DeclaredTools
from nemo_gym.failures import Failure
from nemo_gym.json_objects import member, object_in
from nemo_gym.names import PLACE_HEADER
from nemo_gym.resources.mcp import PLACE_META, STATUS_META
from nemo_gym.rows.compose import note_failed_call
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind

_ERROR_MARK: Final = b'"isError":true'


class ToolFailures:
    """Counts the failed calls of one attempt."""

    def __init__(self, tools: Iterable[Mapping[str, Any]] | None) -> None:
        """`tools` are those that the task declares; without any, the agent sees the tools of the environment."""
        self._declared = DeclaredTools(tools) if tools else None
        self.notes: dict[str, Any] = {}
        """The members of the row; empty without a failed call."""

    def note_answer(self, asked: bytes | None, answered: bytes) -> None:
        """Count the call in a request to the endpoint if its answer is an error."""
        if _ERROR_MARK not in answered or (call := _read_call(asked)) is None:
            return
        note_failed_call(self.notes, self._classify(*call, object_in(answered) or {}))

    def note_unanswered(self, asked: bytes | None, failure: Failure) -> None:
        """Count the call in a request that the endpoint did not answer."""
        if (call := _read_call(asked)) is not None:
            failed = FailedCall(call[0], ToolErrorKind.UNAVAILABLE, failure.message, failure.place)
            note_failed_call(self.notes, failed)

    def _classify(self, tool: str, arguments: str, answered: Mapping[str, Any]) -> FailedCall:
        result = answered.get("result")
        content = member(result, "content")
        text = str(member(content[0], "text")) if isinstance(content, list) and content else ""
        fault = self._declared.find_fault(tool, arguments) if self._declared is not None else None
        if fault is not None:
            return fault
        status, place = (member(result, "_meta", name) for name in (STATUS_META, PLACE_META))
        if not isinstance(status, int):  # the endpoint answered for itself: it has no such tool
            kind = ToolErrorKind.UNKNOWN_TOOL if self._declared is None else ToolErrorKind.NO_ROUTE
            return FailedCall(tool, kind, text)
        failed = classify_answer(tool, status, text, {} if place is None else {PLACE_HEADER: str(place)})
        if (
            failed.kind is ToolErrorKind.MISMATCH and self._declared is None
        ):  # the handler's schema is the declared one
            return FailedCall(tool, ToolErrorKind.INVALID_ARGUMENTS, failed.cause)
        return failed


def _read_call(asked: bytes | None) -> tuple[str, str] | None:
    """Return the tool and the arguments of a `tools/call`; None for another request."""
    message = object_in(asked or b"")
    if message is None or message.get("method") != "tools/call":
        return None
    arguments = member(message, "params", "arguments")
    return str(member(message, "params", "name")), orjson.dumps(arguments or {}).decode()
