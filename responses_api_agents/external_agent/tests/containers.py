"""Agents' programs in containers of an image that has no Python: they run by the interpreter that the gym mounts."""

from __future__ import annotations

import subprocess
from typing import Any

from nemo_gym.isolation.portable_python import PortablePython
from responses_api_agents.external_agent.tests.agents import AgentGym
from tests.sandbox.container_engines import IMAGE

ASK = """
import json, os, socket, sys, time
def status_of(path, key=None, body={"input": "hello"}):
    data = json.dumps(body).encode()
    head = (f"POST {path} HTTP/1.1", "host: gym", "connection: close", "content-type: application/json",
            f"authorization: Bearer {key or os.environ['OPENAI_API_KEY']}", f"content-length: {len(data)}", "", "")
    with socket.create_connection(("127.0.0.1", 8080), 60) as connection:
        connection.sendall("\\r\\n".join(head).encode() + data)
        return int(connection.recv(100).split()[1])
def ask():
    return status_of("/v1/responses")
"""
"""The beginning of an agent's program: the mounted interpreter has the modules that need no further library."""


def contained(engine: str, program: str, *turns: Any, **options: Any) -> AgentGym:
    """A gym whose agent runs `program` in a container of `engine`."""
    command = PortablePython.of_the_gym().command(ASK + program)
    provider = {engine: options.pop("provider_options", {})}
    given = {"command": command, "sandbox_provider": provider, "sandbox_image": IMAGE}
    return AgentGym("", *turns, **{**given, **options})


def containers_of(engine: str) -> list[str]:
    """The names of all containers, those that have ended included."""
    done = subprocess.run([engine, "ps", "--all", "--quiet"], capture_output=True, text=True, check=True)
    return done.stdout.split()
