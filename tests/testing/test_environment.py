from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from pydantic import BaseModel

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.config_types import ModelServerRef
from nemo_gym.global_config import get_first_server_config_dict, get_global_config_dict
from nemo_gym.judge import call_judge
from nemo_gym.mock_engine import EchoPolicy, ModelReply
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.server_utils import ServerClient
from nemo_gym.testing import Turn, call, read_rows, run_environment
from nemo_gym.transport.upstream_error import UpstreamError
from resources_servers.gymnasium import GymnasiumServer

PARAMETERS = {"type": "object", "properties": {"drawer": {"type": "string"}}, "required": ["drawer"]}
ROW = {
    "responses_create_params": {
        "input": "Find the note.",
        "tools": [{"type": "function", "name": "open_drawer", "parameters": PARAMETERS}],
    },
    "drawer": "left",
    "note": "tea",
}


class Task(BaseSeedSessionRequest):
    drawer: str
    note: str


class Drawer(BaseModel):
    drawer: str


class NoteVerifyRequest(BaseVerifyRequest):
    note: str


class DrawersConfig(BaseResourcesServerConfig):
    prize: float = 1.0


class Drawers(SimpleResourcesServer):
    config: DrawersConfig

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/open_drawer")(self.open_drawer)
        return app

    async def seed_session(self, request: Request, body: Task) -> BaseSeedSessionResponse:  # type: ignore[override]
        request.session["notes"] = {body.drawer: body.note}
        return BaseSeedSessionResponse()

    async def open_drawer(self, request: Request, body: Drawer) -> dict[str, str]:
        return {"inside": request.session["notes"].get(body.drawer, "nothing")}

    async def verify(self, body: NoteVerifyRequest) -> BaseVerifyResponse:  # type: ignore[override]
        if not body.note:
            raise RuntimeError("a bug in the verifier")
        if "crash" in body.response.output_text:
            raise RuntimeError("an answer that breaks the verifier")
        reward = self.config.prize * float(body.note in body.response.output_text)
        return BaseVerifyResponse(**body.model_dump(), reward=reward)


FOUND: list[Turn] = [call("open_drawer", drawer="left"), "It says tea."]


def test_an_attempt_follows_its_turns_and_is_scored() -> None:
    (row,) = run_environment(Drawers, [ROW], FOUND)
    assert row["reward"] == 1.0
    assert row["_ng_outcome"] == "completed"
    kinds = [item["type"] for item in row["response"]["output"]]
    assert kinds == ["function_call", "function_call_output", "message"]
    assert row["response"]["output"][1]["output"] == '{"inside":"tea"}'
    assert row["note"] == "tea"


def test_over_http_it_is_the_same_row() -> None:
    def shape(row: dict[str, Any]) -> Any:
        items = [
            {key: value for key, value in item.items() if key not in ("id", "call_id")}
            for item in row["response"]["output"]
        ]
        kept = {key: value for key, value in row.items() if key not in ("response", "_ng_timing")}
        return kept, items

    in_process = run_environment(Drawers, [ROW], FOUND, prize=0.5)
    over_http = run_environment(Drawers, [ROW], FOUND, prize=0.5, over_http=True)
    assert [shape(row) for row in in_process] == [shape(row) for row in over_http]
    assert in_process[0]["reward"] == 0.5


def test_without_turns_the_tools_are_tried() -> None:
    (row,) = run_environment(Drawers, [ROW])
    assert row["reward"] == 0.0
    assert '"nothing"' in row["response"]["output"][-1]["content"][0]["text"]


def test_a_policy_of_ones_own_and_the_agents_options() -> None:
    (row,) = run_environment(Drawers, [ROW | {"note": "Find"}], EchoPolicy(), agent_options={"max_steps": 3})
    assert row["reward"] == 1.0
    (cut,) = run_environment(
        Drawers, [ROW], [call("open_drawer", drawer="x")], agent_options={"max_steps": 3}
    )
    assert cut["_ng_end_reason"] == "max_steps"


def test_several_calls_in_a_turn_and_reasoning() -> None:
    turns: list[Turn] = [
        [call("open_drawer", drawer="right"), call("open_drawer", drawer="left")],
        ModelReply("tea", "I saw it."),
    ]
    (row,) = run_environment(Drawers, [ROW], turns)
    assert row["reward"] == 1.0
    assert "reasoning" in [item["type"] for item in row["response"]["output"]]


@pytest.mark.parametrize("over_http", [False, True])
def test_a_failed_attempt_raises_its_root_cause(over_http: bool) -> None:
    with pytest.raises(UpstreamError, match=r"^RuntimeError: a bug in the verifier") as caught:
        run_environment(Drawers, [{**ROW, "note": ""}], ["tea"], over_http=over_http)
    shown = caught.traceback.filter(caught)
    assert [frame.name for frame in shown] == [test_a_failed_attempt_raises_its_root_cause.__name__]


@pytest.mark.parametrize("over_http", [False, True])
def test_an_answer_that_alone_breaks_the_verifier_scores_0_with_its_reason(over_http: bool) -> None:
    (row,) = run_environment(Drawers, [ROW], ["crash"], over_http=over_http)
    assert (row["reward"], row["answer_fault"]) == (0.0, "raised")
    assert row["answer_fault_detail"] == "RuntimeError: an answer that breaks the verifier"


class JudgedConfig(BaseResourcesServerConfig):
    judge_model_server: ModelServerRef = ModelServerRef(type="responses_api_models", name="judge")


class Judged(SimpleResourcesServer):
    config: JudgedConfig

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        block = get_first_server_config_dict(get_global_config_dict(), self.config.judge_model_server.name)
        assert block["port"]
        assert isinstance(self.server_client, ServerClient)
        judged = await call_judge(
            self.server_client,
            server_name=self.config.judge_model_server.name,
            url_path="/v1/responses",
            json=NeMoGymResponseCreateParamsNonStreaming(input=body.response.output_text),
            response_model=NeMoGymResponse,
        )
        return BaseVerifyResponse(**body.model_dump(), reward=float(judged.output_text == "good"))


def test_judges_are_models_with_given_replies() -> None:
    row = {"responses_create_params": {"input": "Write."}}
    for verdict, reward in (("good", 1.0), ("bad", 0.0)):
        (scored,) = run_environment(Judged, [row], ["An essay."], judges={"judge": [verdict]})
        assert scored["reward"] == reward


class Steps(GymnasiumServer):
    async def step(self, action: Any, metadata: dict[str, Any], session_id: str | None = None) -> Any:
        return None, 2.0, True, False, {}


def test_a_step_style_environment_is_played_by_its_agent() -> None:
    (row,) = run_environment(Steps, [{"responses_create_params": {"input": "Play."}}], ["a move"])
    assert (row["reward"], row["_ng_end_reason"]) == (2.0, "terminated")


def test_rows_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n')
    assert read_rows(path) == [{"a": 1}, {"a": 2}]
