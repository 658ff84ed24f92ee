"""Names that the gym uses and that the documentation of a library does not promise.

A new version without one fails here, by the name and the place that needs it, and not as a defect of a server.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any, Final

import pytest

USED: Final[Mapping[str, tuple[str, ...]]] = {
    "uvicorn.protocols.http.httptools_impl": ("HEADER_RE", "HEADER_VALUE_RE", "STATUS_LINE"),
    "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol": (
        "connection_lost",
        "connection_made",
        "data_received",
        "on_body",
        "on_headers_complete",
        "on_message_begin",
        "on_message_complete",
        "on_response_complete",
        "send_400_response",
        "self.cycle",
        "self.expect_100_continue",
        "self.flow",
        "self.headers",
        "self.loop",
        "self.parser",
        "self.pipeline",
        "self.transport",
        "self.url",
    ),
    "uvicorn.protocols.http.httptools_impl:RequestResponseCycle": (
        "self.disconnected",
        "self.flow",
        "self.keep_alive",
        "self.message_event",
        "self.more_body",
        "self.on_response",
        "self.response_complete",
        "self.response_started",
        "self.scope",
        "self.transport",
        "self.waiting_for_100_continue",
    ),
    "uvicorn.server:Server": ("main_loop", "shutdown", "startup", "self.server_state", "self.should_exit"),
    "uvicorn.server:ServerState": ("self.connections", "self.tasks"),
    "fastapi.dependencies.utils": ("get_dependant",),
    "hydra.core.override_parser.overrides_parser:OverridesParser": ("create", "parse_override"),
    "starlette.requests": ("cookie_parser",),
}
"""A module, or a class in it → its names; `self.` marks those of an instance."""

USERS: Final[Mapping[str, str]] = {
    "uvicorn": "nemo_gym/serving/connections.py and listening.py",
    "fastapi": "nemo_gym/resources/answer_fault_rule.py",
    "hydra": "nemo_gym/config/_overrides.py",
    "starlette": "nemo_gym/viewer/access.py",
}


def find_instance_names(of: type[Any]) -> set[str]:
    """Return the names that the methods of a class assign on `self`."""
    return {
        element.attr
        for element in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(of))))
        if isinstance(element, ast.Attribute)
        and isinstance(element.ctx, ast.Store)
        and isinstance(element.value, ast.Name)
        and element.value.id == "self"
    }


@pytest.mark.parametrize("place", USED)
def test_the_names_that_the_gym_uses_are_there(place: str) -> None:
    module, _, name = place.partition(":")
    holder: Any = importlib.import_module(module)
    holder = getattr(holder, name) if name else holder
    on_instances = find_instance_names(holder) if name else set()
    missing = [
        used
        for used in USED[place]
        if not (
            used.removeprefix("self.") in on_instances if used.startswith("self.") else hasattr(holder, used)
        )
    ]
    assert not missing, f"{place} lacks {missing}, which {USERS[module.partition('.')[0]]} needs"
