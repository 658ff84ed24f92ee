"""Tools as functions of a workplace. The declaration for the model is derived from the function's signature.

    email = Toolkit("email")

    @email.tool("Send an email.", recipient="The address of the recipient", ...)
    def send_email(workplace: Workplace, recipient: str, ...) -> str: ...

defines the tool `email_send_email`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from nemo_gym.failures import ToolError
from resources_servers.workplace_assistant.tables import Workplace

ToolFunction = Callable[..., Any]

_JSON_TYPES = {"str": "string", "int": "integer"}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model can call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON schema of the arguments."""
    function: ToolFunction
    validator: jsonschema_rs.Validator

    def declaration(self) -> dict[str, Any]:
        """Return the declaration of the tool for a task row."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "strict": False,
        }

    def call(self, workplace: Workplace, arguments: Mapping[str, Any]) -> Any:
        """Run the tool and return its answer. A null argument counts as absent.

        Raises `ToolError` for invalid arguments, before any change.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        if not self.validator.is_valid(given):
            problems = "; ".join(error.message for error in self.validator.iter_errors(given))
            raise refusal(f"{self.name}: {problems}")
        return self.function(workplace, **given)


class Toolkit:
    """The tools of one domain."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.tools: list[Tool] = []

    def tool(self, description: str, **parameters: str) -> Callable[[ToolFunction], ToolFunction]:
        """Register the decorated function as a tool; `parameters` describe its arguments."""

        def register(function: ToolFunction) -> ToolFunction:
            schema = _schema_of(function, parameters)
            name = f"{self._name}_{function.__name__}"
            self.tools.append(Tool(name, description, schema, function, jsonschema_rs.validator_for(schema)))
            return function

        return register


def _schema_of(function: ToolFunction, descriptions: Mapping[str, str]) -> dict[str, Any]:
    _, *arguments = inspect.signature(function).parameters.values()
    if [argument.name for argument in arguments] != list(descriptions):
        raise TypeError(f"the arguments of {function.__name__} and their descriptions differ")
    return {
        "type": "object",
        "properties": {
            argument.name: {
                "type": _JSON_TYPES[str(argument.annotation)],
                "description": descriptions[argument.name],
            }
            for argument in arguments
        },
        "required": [argument.name for argument in arguments if argument.default is argument.empty],
        "additionalProperties": False,
    }


def refusal(message: str) -> ToolError:
    """Return the error for invalid arguments of a tool."""
    return ToolError(message, code="tool_refused", status=400)
