"""scripted_model: the engine stub inside the model server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError, EngineError
from responses_api_models.scripted_model.app import ScriptedModel


def scripted(**options: Any) -> ScriptedModel:
    server = ScriptedModel.standalone(**options)
    assert isinstance(server, ScriptedModel)
    return server


async def said(server: ScriptedModel, question: str) -> str:
    response = await server.respond({"input": question})
    text: str = response["output"][-1]["content"][0]["text"]
    return text


async def test_it_answers_from_a_file_of_answers(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_bytes(orjson.dumps({"match": "capital of France", "answer": "It is Paris."}))
    server = scripted(engine={"policy": "answer", "answers": str(answers)})
    assert await said(server, "What is the capital of France?") == "It is Paris."


async def test_it_gives_token_ids_as_the_engine_does() -> None:
    server = scripted(engine={"policy": "echo"}, return_token_id_information=True)
    last = (await server.respond({"input": "hello"}))["output"][-1]
    assert len(last["generation_token_ids"]) == len(last["generation_log_probs"]) > 0


async def test_faults_can_stand_in_the_configuration() -> None:
    server = scripted(engine={"policy": "echo", "faults": [{"do": "http_500", "nth": 1}]})
    with pytest.raises(EngineError, match="Internal server error"):
        await said(server, "hello")
    assert await said(server, "hello") == "hello"
    inline = scripted(engine={"policy": "echo", "faults": "- {do: http_500}"})
    with pytest.raises(EngineError, match="Internal server error"):
        await said(inline, "hello")


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ({"policy": "answer", "answers": "no/such/file.jsonl"}, "there is no file at no/such/file.jsonl"),
        ({"faults": "no/such/file.yaml"}, "there is no file at"),
        ({"policy": "parrot"}, "policy"),
        ({"model": "other"}, "beside `engine`"),
        ({"polcy": "echo"}, "polcy"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(engine: dict[str, Any], told: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=told):
        scripted(engine=engine)


async def test_its_name_is_listed() -> None:
    assert [entry["id"] for entry in (await scripted().list_models())["data"]] == ["scripted"]
    assert (await scripted(model="policy").preflight())["ok"] is True
