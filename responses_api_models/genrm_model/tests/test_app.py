"""genrm_model: texts of the metadata become messages of the model's own roles."""

from __future__ import annotations

from typing import Any

import pytest

from responses_api_models.genrm_model.app import GenRMModel

MESSAGES = [{"role": "user", "content": "Which is better?"}]
COMPARED = {"response_1": "a", "response_2": "b", "principle": "Be brief."}


async def roles_of(metadata: Any, **options: Any) -> list[tuple[str, str]]:
    server = GenRMModel.standalone(model="genrm", **options)
    assert isinstance(server, GenRMModel)
    body = await server.prepare_chat({"messages": MESSAGES, "metadata": metadata})
    assert "metadata" not in body
    return [(message["role"], message["content"]) for message in body["messages"][1:]]


async def test_the_principle_comes_before_the_responses() -> None:
    assert await roles_of(COMPARED) == [("principle", "Be brief."), ("response_1", "a"), ("response_2", "b")]


async def test_a_principle_is_left_out_where_the_template_has_none() -> None:
    assert await roles_of(COMPARED, supports_principle_role=False) == [
        ("response_1", "a"),
        ("response_2", "b"),
    ]


@pytest.mark.parametrize("metadata", [None, {}, {"id": "1"}])
async def test_an_ordinary_request_stays_as_it_is(metadata: Any) -> None:
    assert await roles_of(metadata) == []
