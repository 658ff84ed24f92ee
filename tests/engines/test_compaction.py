"""Compactions as OpenAI's client asks for them, and their place in the record of a rollout."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from fastapi.testclient import TestClient

from nemo_gym.engines.compaction import build_compaction, insert_summaries
from nemo_gym.mock_engine import EngineOptions, MockEngine, ModelReply
from nemo_gym.mock_engine.conversation import last_user_text
from tests.engines.gateway.rollouts import bearer, gateway, opened, record_of
from tests.serving.environments import ScriptedModel, text

SUMMARY = "The sum of the first three amounts is 12 euros."


class Summarizer:
    def reply(self, conversation: Any, tools: Any, rng: Random) -> ModelReply:
        asked = last_user_text(conversation)
        return ModelReply(SUMMARY if asked.startswith("Summarize this conversation") else f"I read: {asked}")


def test_a_conversation_goes_on_from_its_summary(tmp_path: Path) -> None:
    engine = MockEngine(EngineOptions(model="mock"), policy=Summarizer())
    client = gateway(tmp_path, engine.app, return_token_id_information=True)
    rollout = opened(client)
    key = bearer(rollout)
    history: list[Any] = [{"role": "user", "content": "Add 3, 4 and 5."}]
    first = client.post("/v1/responses", json={"input": history}, headers=key).json()
    history += first["output"]
    reply = client.post("/v1/responses/compact", json={"model": "m", "input": history}, headers=key)
    assert reply.status_code == 200, reply.text
    compaction = reply.json()
    assert compaction["object"] == "response.compaction"
    question, item = compaction["output"]
    assert (question["content"], item["type"], item["encrypted_content"]) == (
        "Add 3, 4 and 5.",
        "compaction",
        SUMMARY,
    )
    history = [*compaction["output"], {"role": "user", "content": "Add 6."}]
    body = {"input": history, "stream": True}
    assert "I read: Add 6." in client.post("/v1/responses", json=body, headers=key).text
    record = record_of(client, rollout)
    assert [node["edge"] for node in record["tree"]["nodes"].values()] == ["root", "continues", "compacts"]
    assert all(node["untrained"] is None for node in record["tree"]["nodes"].values())


def test_a_compaction_needs_the_key_of_a_rollout(tmp_path: Path) -> None:
    client = gateway(tmp_path, require_open_rollouts=True)
    assert client.post("/v1/responses/compact", json={"input": "x"}).status_code == 403


def test_a_model_of_an_author_compacts_too_and_passes_its_refusals_on() -> None:
    model = ScriptedModel.standalone(name="policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text(SUMMARY)], "overflow"]
    client = TestClient(model.setup_webserver())
    answer = client.post("/v1/responses/compact", json={"input": "x"}).json()
    assert answer["output"][-1]["encrypted_content"] == SUMMARY
    assert client.post("/v1/responses/compact", json={"input": "x"}).status_code == 400


def test_a_text_has_no_compaction_items() -> None:
    assert insert_summaries({"input": "x", "model": "m"}) == {"input": "x", "model": "m"}


def test_reasoning_is_no_part_of_a_summary() -> None:
    output = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hidden"}]}, text("shown")]
    answer = {"id": "r", "created_at": 1.0, "output": output, "usage": None}
    (item,) = build_compaction([], answer)["output"]
    assert item["encrypted_content"] == "shown"
