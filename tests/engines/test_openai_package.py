"""Every model server is usable with the unmodified `openai` package, plain and streaming, sync and async."""

from collections.abc import Callable

import pytest
from openai import AsyncOpenAI, OpenAI

from tests.engines import scenarios
from tests.engines.kinds import KINDS

MODEL = scenarios.MODEL


@pytest.fixture(scope="module", params=KINDS)
def client(
    request: pytest.FixtureRequest, url_of_kind: Callable[[str], str], connect: Callable[[str], OpenAI]
) -> OpenAI:
    return connect(url_of_kind(request.param))


@pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.__name__)
def test_scenario(client: OpenAI, scenario: Callable[[OpenAI], None]) -> None:
    scenario(client)


async def test_the_async_client(client: OpenAI) -> None:
    async with AsyncOpenAI(base_url=client.base_url, api_key="none", max_retries=0) as async_client:
        response = await async_client.responses.create(
            model=MODEL, instructions="Be brief.", input="hello", max_output_tokens=500
        )
        assert response.output_text == "No tool was needed for: hello"
        async with async_client.responses.stream(model=MODEL, input="hello stream") as stream:
            final = await stream.get_final_response()
        assert final.output_text == "No tool was needed for: hello stream"
        chunks = [
            chunk
            async for chunk in await async_client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "hello chat stream"}], stream=True
            )
        ]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text == "No tool was needed for: hello chat stream"


def test_models_are_listed_as_openai_lists_them(client: OpenAI) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.object) == (MODEL, "model")
    assert isinstance(model.created, int)
    assert model.owned_by
