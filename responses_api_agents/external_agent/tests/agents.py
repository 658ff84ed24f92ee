"""A gym with external agents that are Python programs, and an environment that gives a reward for a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.engines.record.store import CAPTURE_DIR_KEY
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.testing import InProcessGym
from responses_api_agents.external_agent.app import ExternalAgent
from tests.serving.environments import ScriptedModel, task_row

PYTHON = PythonInstallation.from_gym()

ASK = """
import json, os, sys, urllib.error, urllib.request
def send(path, body=None, method="POST", **headers):
    url = path if path.startswith("http") else os.environ["OPENAI_BASE_URL"][:-3] + path
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json", **headers}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
def ask(text="hello"):
    return send("/v1/responses", {"input": text})
"""
"""The beginning of an agent's program: `ask()` calls the model and returns status and body."""


class FolderVerifyRequest(BaseVerifyRequest):
    folder_files: dict[str, str] = Field(default_factory=dict)


class FolderVerifyResponse(FolderVerifyRequest, BaseVerifyResponse):
    said: str


class FolderEnvironment(SimpleResourcesServer):
    """Rewards the number of files that it gets."""

    config: BaseResourcesServerConfig

    async def verify(self, body: FolderVerifyRequest) -> FolderVerifyResponse:  # type: ignore[override]
        reward = float(len(body.folder_files))
        return FolderVerifyResponse(**dict(body), reward=reward, said=body.response.output_text)


class AgentGym(InProcessGym):
    """A gym whose agent runs `program`, Python code."""

    records: ClassVar[Path]
    """The folder of the calls' records; `conftest.py` sets it for each test."""

    def __init__(
        self, program: str, *turns: Any, env: type[SimpleResourcesServer] = FolderEnvironment, **options: Any
    ) -> None:
        super().__init__()
        self.config[CAPTURE_DIR_KEY] = str(self.records)
        self.add(env, "env", **options.pop("env_options", {}))
        model = self.add(ScriptedModel, "policy_model")
        assert isinstance(model, ScriptedModel)
        self.model = model
        model.turns = list(turns)
        references = {
            "resources_server": {"type": "resources_servers", "name": "env"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
        }
        settings = {"command": python_command(program), "final_message": "stdout", **references, **options}
        agent = self.add(ExternalAgent, "agent", **settings)
        assert isinstance(agent, ExternalAgent)
        self.agent = agent


def python_command(program: str) -> list[str]:
    return PYTHON.command(ASK + program)


def said_in(row: dict[str, Any]) -> str:
    """The output of the agent's program."""
    said: str = row["response"]["output"][-1]["content"][0]["text"]
    return said.strip()


def folder_row(files: dict[str, str] | None = None, *take: str) -> dict[str, Any]:
    return task_row() | {"folder": {"files": files or {}, "take": list(take)}}


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())
