"""Attempts in the form of verify requests, for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from nemo_gym.server_utils import ServerClient
from resources_servers.code_gen.app import (
    CompCodingResourcesServer,
    CompCodingResourcesServerConfig,
    CompCodingVerifyRequest,
    CompCodingVerifyResponse,
)

FOLDER = Path(__file__).parents[1]
SHARED = FOLDER.parents[2] / "shared" / "data"


def make_server(**options: Any) -> CompCodingResourcesServer:
    config = CompCodingResourcesServerConfig(host="", port=0, entrypoint="", name="", **options)
    return CompCodingResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))


def response_of(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [message]}
    return {**answer, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def attempt(text: str, metadata: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": "Write it."}]},
        "verifier_metadata": metadata,
        "response": response_of(text),
    }


async def verify(
    server: CompCodingResourcesServer, text: str, metadata: dict[str, Any] | None
) -> CompCodingVerifyResponse:
    return await server.verify(CompCodingVerifyRequest.model_validate(attempt(text, metadata)))


def fenced(code: str) -> str:
    return f"Here it is:\n```python\n{code}\n```\nDone."


def rows_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
