"""The client for the tools of a task: it checks names and arguments and returns the tool's output as text.

Tool names from a model are untrusted. Only a name that the task declares is called, in its exact spelling, and never a
control route. An invalid call returns a tool error to the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from nemo_gym.failures import InputError, error_of
from nemo_gym.json_objects import parse_json
from nemo_gym.transport import failure_of_reply
from nemo_gym.transport.control import CONTROL_ROUTES, routed_path
from nemo_gym.transport.server_client import ServerClient
from nemo_gym.verify.json_schema import schema_problems

RESERVED_NAMES = frozenset(
    {route.lstrip("/") for route in CONTROL_ROUTES} | {"run", "reverify_mode", "reset", "step", "close", ""}
)

_SESSION_FAILURES = frozenset({"session_lost", "session_closed", "token_required"})
"""Failure codes that end the attempt instead of becoming the tool's output."""


class ToolClient:
    """Calls the tools that a task declares at one resources server."""

    def __init__(self, client: ServerClient, server: str, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self._client = client
        self._server = server
        self._parameters: dict[str, Any] = {}
        for index, tool in enumerate(tools or ()):
            if tool.get("type", "function") != "function":
                continue
            name = str(tool.get("name"))
            if routed_path(name)[1:] in RESERVED_NAMES:
                raise InputError(
                    f"the task declares a tool named `{name}`, which is a reserved route of the gym",
                    code="reserved_tool_name",
                    param=f"responses_create_params.tools[{index}].name",
                )
            self._parameters[name] = tool.get("parameters") or {}

    async def call(self, name: str, arguments: str) -> str:
        """Call a tool and return its output as text for the model. Raises `GymError`.

        An HTTP error of the tool itself is returned, because the model may have made an invalid call. An unreachable
        server or a lost session raises. A call whose connection broke may have been executed: it is not retried, and
        the attempt fails as `ambiguous_delivery`.
        """
        refusal = self._refusal(name, arguments)
        if refusal is not None:
            return tool_error(refusal)
        path = "/" + quote(name, safe="")
        reply = await self._client.post(self._server, path, data=arguments or "{}")
        if not reply.ok:
            failure = failure_of_reply(reply)
            if failure is not None and failure.code in _SESSION_FAILURES:
                raise error_of(failure.passed_on_by(self._server))
            if failure is not None:
                return tool_error(failure.message)
        return reply.body.decode(errors="replace")

    def _refusal(self, name: str, arguments: str) -> str | None:
        schema = self._parameters.get(name)
        if schema is None:
            known = ", ".join(self._parameters) or "none"
            return f"there is no tool named {name!r}; the tools are: {known}"
        try:
            parsed = parse_json(arguments or "{}")
        except orjson.JSONDecodeError as error:
            return f"the arguments of {name} are not valid JSON: {error}"
        if not isinstance(parsed, dict):
            return f"the arguments of {name} must be a JSON object"
        try:
            problems = schema_problems(parsed, schema)
        except InputError:  # with an invalid schema, the tool judges its arguments itself
            return None
        return (
            f"the arguments of {name} do not fit its parameters: {'; '.join(problems)}" if problems else None
        )


def tool_error(message: str) -> str:
    """Format a tool error for the model."""
    return orjson.dumps({"error": message}).decode()
