"""An adversary's scripts are found where tools decide the reward, and nowhere else; what it finds is a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field

from nemo_gym.audit.adversary import EXPLOITS, INSTRUCTION, SCRIPT, Adversary, write_scripts
from nemo_gym.audit.environment import AuditSettings, EnvironmentAudit
from nemo_gym.audit.outcomes import Conclusion
from nemo_gym.audit.probing import Prober
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.testing import InProcessGym
from nemo_gym.transport import Caller
from nemo_gym.transport.moving_caller import build_caller
from tests.audit.planted_verifiers import make_row

WRITE = {
    "type": "function",
    "name": "write_file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}},
}


class File(BaseModel):
    path: str
    text: str = ""


class FilesServer(SimpleResourcesServer):
    """Its verifier believes in a file that the policy can write."""

    config: BaseResourcesServerConfig
    trusts: bool = True
    files: dict[str, str] = Field(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/write_file")(self.write_file)
        return app

    async def write_file(self, body: File) -> dict[str, bool]:
        self.files[body.path] = body.text
        return {"ok": True}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        reward = float(self.trusts and "reward.txt" in self.files)
        return BaseVerifyResponse(**dict(body), reward=reward)


class WaryServer(FilesServer):
    trusts: bool = False


def make_tool_row(question: str) -> dict[str, Any]:
    row = make_row(question)
    row["responses_create_params"]["tools"] = [WRITE]
    return row


def open_gym(kind: type[SimpleResourcesServer]) -> tuple[InProcessGym, Caller]:
    gym = InProcessGym()
    gym.add(kind, "files")
    return gym, build_caller(gym.config, gym.transport, None)


async def audit(kind: type[SimpleResourcesServer], folder: Path) -> Mapping[str, Any]:
    gym, caller = open_gym(kind)
    rows = [make_tool_row(f"Task {at}") for at in range(3)]
    settings = AuditSettings(folder, adversary=True, repeats=False)
    async with gym.running():
        environment = EnvironmentAudit("files", "files", rows, settings)
        journal, _ = await environment.run(caller)
        card = environment.build_card(journal)
        journal.close()
    return {each.kind: each for each in card.classes}[SCRIPT].as_json()


async def test_scripts_that_write_the_reward_are_found_with_rows_that_reproduce_it(tmp_path: Path) -> None:
    found = await audit(FilesServer, tmp_path)
    assert found["wrong"] == found["probes"] == 18
    rows = [json.loads(line) for line in (tmp_path / EXPLOITS).read_text().splitlines()]
    assert len(rows) == 18
    assert {row["reward"] for row in rows} == {1.0}
    assert rows[0]["response"]["output"][0]["name"] == "write_file"


async def test_a_verifier_that_sees_through_them_is_not_accused(tmp_path: Path) -> None:
    found = await audit(WaryServer, tmp_path)
    assert (found["wrong"], found["probes"]) == (0, 18)
    assert not (tmp_path / EXPLOITS).exists()


def test_scripts_are_the_same_at_every_task_and_none_without_tools() -> None:
    first, second = (list(write_scripts(make_tool_row(question))) for question in ("a", "b"))
    assert first == second
    assert first[0][1][0] == ("write_file", {"path": "reward.txt", "text": "1.0"})
    assert list(write_scripts(make_row("a"))) == []


async def test_a_win_of_a_model_is_undecided_and_kept(tmp_path: Path) -> None:
    asked = []

    class Agent:
        async def call(self, agent: str, method: str, route: str, **options: Any) -> Any:
            row = json.loads(options["body"])
            asked.append(row["responses_create_params"]["input"][0]["content"])
            answer = {**row, "response": {"output": []}, "reward": float(len(asked) == 1)}
            return type("Reply", (), {"ok": True, "status": 200, "body": json.dumps(answer).encode()})()

    adversary = Adversary(Prober(Agent(), "files"), tmp_path / EXPLOITS)  # type: ignore[arg-type]
    outcomes = [
        outcome
        for task in ("task 0", "task 1")
        for outcome in await adversary.ask_model(Agent(), task, make_row("Do it."), "agent")  # type: ignore[arg-type]
    ]
    assert [outcome.conclusion for outcome in outcomes] == [Conclusion.UNDECIDED, Conclusion.RIGHT]
    assert asked == [INSTRUCTION, INSTRUCTION]
    assert len((tmp_path / EXPLOITS).read_text().splitlines()) == 1
