"""The client for the tools of a task: it checks names and arguments and returns the tool's output as text.

Tool names from a model are untrusted. Only a name that the task declares is called, in its exact spelling, and never a
control route. A call that fails has an error as its output for the model, and is told apart by whose fault it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from nemo_gym.agents.tool_answers import classify_answer
from nemo_gym.failures import InputError, build_error
from nemo_gym.json_objects import parse_json
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from nemo_gym.transport import read_reply_failure
from nemo_gym.transport.control import CONTROL_ROUTES, normalize_path
from nemo_gym.transport.server_client import ServerClient, ServerReply
from nemo_gym.verify.json_schema import schema_problems

RESERVED_NAMES = frozenset(
    {route.lstrip("/") for route in CONTROL_ROUTES} | {"run", "reverify_mode", "reset", "step", "close", ""}
)

_SESSION_FAILURES = frozenset({"session_lost", "session_closed", "token_required"})
"""Failure codes that end the attempt instead of becoming the tool's output."""


class FailedToolCall(Exception):
    """A tool call failed, and the attempt goes on: the model gets `output`."""

    def __init__(self, failed: FailedCall, output: str | None = None) -> None:
        """`output` is by default the cause."""
        super().__init__(failed.cause)
        self.failed = failed
        self.output = tool_error(failed.cause) if output is None else output


class DeclaredTools:
    """The functions that a task declares."""

    def __init__(self, tools: Iterable[Mapping[str, Any]] | None) -> None:
        """Raises `InputError` for a tool with the name of a route of the gym."""
        self._parameters: dict[str, Any] = {}
        for index, tool in enumerate(tools or ()):
            if tool.get("type", "function") != "function":
                continue
            name = str(tool.get("name"))
            if normalize_path(name)[1:] in RESERVED_NAMES:
                raise InputError(
                    f"the task declares a tool named `{name}`, which is a reserved route of the gym",
                    code="reserved_tool_name",
                    param=f"responses_create_params.tools[{index}].name",
                )
            self._parameters[name] = tool.get("parameters") or {}

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def find_fault(self, name: str, arguments: str) -> FailedCall | None:
        """Return the failure of a call that the model got wrong; None for a call that fits its declaration."""
        schema = self._parameters.get(name)
        if schema is None:
            known = ", ".join(self._parameters) or "none"
            cause = f"there is no tool named {name!r}; the tools are: {known}"
            return FailedCall(name, ToolErrorKind.UNKNOWN_TOOL, cause)
        try:
            parsed = parse_json(arguments or "{}")
        except orjson.JSONDecodeError as error:
            cause = f"the arguments of {name} are not valid JSON: {error}"
            return FailedCall(name, ToolErrorKind.INVALID_JSON, cause)
        if not isinstance(parsed, dict):
            cause = f"the arguments of {name} must be a JSON object"
            return FailedCall(name, ToolErrorKind.INVALID_ARGUMENTS, cause)
        try:
            problems = schema_problems(parsed, schema)
        except InputError:  # with an invalid schema, the tool judges its arguments itself
            return None
        if not problems:
            return None
        cause = f"the arguments of {name} do not fit its parameters: {'; '.join(problems)}"
        return FailedCall(name, ToolErrorKind.INVALID_ARGUMENTS, cause)


class ToolClient:
    """Calls the tools that a task declares at one resources server."""

    def __init__(self, client: ServerClient, server: str, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self._client = client
        self._server = server
        self._tools = DeclaredTools(tools)

    async def call(self, name: str, arguments: str) -> str:
        """Call a tool and return its output as text for the model, also if the call failed. Raises `GymError`."""
        try:
            return await self.call_or_raise(name, arguments)
        except FailedToolCall as error:
            return error.output

    async def call_or_raise(self, name: str, arguments: str) -> str:
        """Call a tool and return its output as text for the model. Raises `FailedToolCall` and `GymError`.

        An HTTP error of the tool itself is a failed call, because the model may have made an invalid one. An
        unreachable server or a lost session raises `GymError`. A call whose connection broke may have been executed:
        it is not retried, and the attempt fails as `ambiguous_delivery`.
        """
        fault = self._tools.find_fault(name, arguments)
        if fault is not None:
            raise FailedToolCall(fault)
        path = "/" + quote(name, safe="")
        reply = await self._client.post(self._server, path, data=arguments or "{}")
        if not reply.ok:
            raise self._build_failed_call(name, reply)
        return reply.body.decode(errors="replace")

    def _build_failed_call(self, name: str, reply: ServerReply) -> FailedToolCall:
        failure = read_reply_failure(reply)
        if failure is not None and failure.code in _SESSION_FAILURES:
            raise build_error(failure.add_hop(self._server))
        failed = classify_answer(name, reply.status, reply.body, reply.headers)
        output = reply.body.decode(errors="replace") if failure is None else tool_error(failure.message)
        return FailedToolCall(failed, output)


def tool_error(message: str) -> str:
    """Format a tool error for the model."""
    return orjson.dumps({"error": message}).decode()
