from typing import Any

from nemo_gym.mock_engine import EngineOptions, MockEngine, ModelReply, ScriptPolicy
from nemo_gym.mock_engine.policies import Scene
from tests.mock_engine.wire import running


async def test_the_model_is_listed_with_its_context_and_any_other_is_unknown() -> None:
    async with running(model="policy", max_model_len=512) as wire:
        _, models = await wire.get("/v1/models")
        status, error = await wire.chat(model="other")
        known, _ = await wire.chat(model="policy")
    assert (models["data"][0]["id"], models["data"][0]["max_model_len"]) == ("policy", 512)
    assert (status, known) == (404, 200)
    assert error["error"]["message"] == "The model `other` does not exist."
    assert error["error"]["type"] == "NotFoundError"


async def test_errors_have_vllm_s_envelope_or_its_older_flat_one() -> None:
    async with running() as nested, running(flat_errors=True) as flat:
        _, error = await nested.chat(tools=[])
        _, older = await flat.chat(tools=[])
    assert (error["error"]["type"], error["error"]["code"]) == ("BadRequestError", 400)
    assert older == {"object": "error", **error["error"]}


async def test_a_key_guards_the_api_and_nothing_else() -> None:
    async with running(api_key="secret") as wire:
        status, error = await wire.chat()
        healthy, _ = await wire.get("/health")
        headers = {"authorization": "Bearer secret"}
        async with wire.session.get(f"{wire.engine.base_url}/models", headers=headers) as answer:
            allowed = answer.status
    assert (status, error, healthy, allowed) == (401, {"error": "Unauthorized"}, 200, 200)


async def test_wrong_routes_methods_and_bodies_have_different_errors() -> None:
    async with running() as wire:
        assert (await wire.post("/v1/embeddings"))[0] == 404
        assert (await wire.get("/v1/chat/completions"))[0] == 405
        url = f"{wire.engine.base_url}/chat/completions"
        for body, message in ((b"{", "json_invalid"), (b"[]", "must be a JSON object")):
            async with wire.session.post(url, data=body) as answer:
                assert answer.status == 400
                assert message in (await answer.json())["error"]["message"]


async def test_a_policy_that_has_no_reply_is_an_error_with_its_reason() -> None:
    async with running(ScriptPolicy((Scene((ModelReply("x"),), match="nowhere"),))) as wire:
        status, error = await wire.chat()
    assert status == 400
    assert "no scene" in error["error"]["message"]


async def test_the_app_serves_in_memory_without_a_socket() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b'{"messages":[{"role":"user","content":"Hi"}]}'}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {"type": "http", "path": "/v1/chat/completions", "method": "POST", "headers": []}
    await MockEngine(EngineOptions(policy="echo")).app(scope, receive, send)
    assert sent[0]["status"] == 200
    assert b'"content":"Hi"' in sent[1]["body"]
