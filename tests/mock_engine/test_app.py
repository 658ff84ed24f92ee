import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from nemo_gym.mock_engine import EngineOptions, MockEngine, ModelReply, ScriptPolicy, ToolCall
from nemo_gym.mock_engine.policies import Scene
from tests.mock_engine.wire import ADD, USER, running
from tests.waiting import until

THOUGHTFUL = ScriptPolicy(
    (Scene((ModelReply("Let me add.", "Two numbers.", (ToolCall("add", '{"a": 1}'),)),)),)
)
TRAINING = {
    "return_token_ids": True,
    "logprobs": True,
    "top_logprobs": 0,
    "return_tokens_as_token_ids": True,
}


async def test_a_chat_answer_has_the_form_that_trainers_read() -> None:
    async with running(THOUGHTFUL) as wire:
        status, answer = await wire.chat(tools=[ADD], **TRAINING)
        _, prompt = await wire.post("/tokenize", messages=[USER], tools=[ADD])
    choice = answer["choices"][0]
    message = choice["message"]
    assert status == 200
    assert (message["content"], message["reasoning"]) == ("Let me add.", "Two numbers.")
    assert message["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1}'}
    assert (choice["finish_reason"], choice["stop_reason"]) == ("tool_calls", None)
    assert answer["prompt_token_ids"] == prompt["tokens"]
    named = choice["logprobs"]["content"]
    assert [token["token"] for token in named] == [f"token_id:{token}" for token in choice["token_ids"]]
    assert answer["usage"] == {
        "prompt_tokens": len(prompt["tokens"]),
        "completion_tokens": len(choice["token_ids"]),
        "total_tokens": len(prompt["tokens"]) + len(choice["token_ids"]),
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 6},
    }


async def test_the_ids_of_an_episode_of_several_turns_link_up() -> None:
    async with running(think=True) as wire:
        messages: list[dict[str, Any]] = [USER]
        seen: list[int] = []
        for _ in range(3):
            _, answer = await wire.chat(messages=messages, tools=[ADD], **TRAINING)
            assert answer["prompt_token_ids"][: len(seen)] == seen
            seen = answer["prompt_token_ids"] + answer["choices"][0]["token_ids"]
            message = answer["choices"][0]["message"]
            messages = [*messages, message, {"role": "tool", "tool_call_id": "1", "content": "3"}]
        assert "tool_calls" not in message


async def test_nothing_of_tokens_is_in_an_answer_that_was_not_asked_for_them() -> None:
    async with running() as wire:
        _, answer = await wire.chat()
    assert "prompt_token_ids" not in answer
    assert "token_ids" not in answer["choices"][0]
    assert answer["choices"][0]["logprobs"] is None


async def test_logprobs_name_tokens_by_their_text_unless_told_otherwise() -> None:
    async with running(ScriptPolicy((Scene((ModelReply("abcd"),)),))) as wire:
        _, answer = await wire.chat(logprobs=True, top_logprobs=2)
    first = answer["choices"][0]["logprobs"]["content"][0]
    assert (first["token"], first["bytes"]) == ("ab", [97, 98])
    assert [top["logprob"] for top in first["top_logprobs"]] == [first["logprob"], first["logprob"] - 0.75]


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("reasoning", {"reasoning"}),
        ("reasoning_content", {"reasoning_content"}),
        ("both", {"reasoning", "reasoning_content"}),
        ("inline", set()),
    ],
)
async def test_reasoning_is_where_the_engine_s_version_has_it(field: str, names: set[str]) -> None:
    async with running(THOUGHTFUL, reasoning_field=field) as wire:
        _, answer = await wire.chat(tools=[ADD])
    message = answer["choices"][0]["message"]
    assert {name for name in message if name.startswith("reasoning")} == names
    assert all(message[name] == "Two numbers." for name in names)
    assert message["content"] == ("<think>Two numbers.</think>Let me add." if not names else "Let me add.")


async def test_completions_have_both_kinds_of_ids_on_the_choice() -> None:
    async with running(policy="echo") as wire:
        _, answer = await wire.post(
            "/v1/completions", prompt="abcd", logprobs=1, return_token_ids=True, echo=True
        )
    choice = answer["choices"][0]
    assert choice["text"] == "abcdabcd"
    assert len(choice["prompt_token_ids"]) == 2
    assert len(choice["token_ids"]) == len(choice["logprobs"]["token_logprobs"]) == 3
    assert choice["logprobs"]["text_offset"] == [0, 2, 4]


async def test_responses_have_items_and_raw_tokens_when_asked_for() -> None:
    async with running(THOUGHTFUL) as wire:
        tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}
        _, answer = await wire.post(
            "/v1/responses", input="Add.", tools=[tool], enable_response_messages=True
        )
        _, cut = await wire.post("/v1/responses", input="Add.", max_output_tokens=4)
        _, clamped = await wire.post("/v1/responses", input="Add.", max_output_tokens=10**9)
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message", "function_call"]
    assert len(answer["output_messages"][0]["tokens"]) == answer["usage"]["output_tokens"]
    assert len(answer["input_messages"][0]["tokens"]) == answer["usage"]["input_tokens"]
    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert clamped["status"] == "completed"


async def test_tokens_can_be_counted_and_turned_back_into_text() -> None:
    async with running() as wire:
        _, counted = await wire.post("/tokenize", prompt="ab cd", return_token_strs=True)
        _, text = await wire.post("/detokenize", tokens=counted["tokens"])
        status, _ = await wire.post("/detokenize", tokens=[10**9])
    assert (counted["count"], counted["token_strs"]) == (3, ["ab", " c", "d"])
    assert text == {"prompt": "ab cd"}
    assert status == 400


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


async def test_wrong_routes_methods_and_bodies_are_told_apart() -> None:
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


async def test_what_was_seen_is_counted_until_it_is_reset() -> None:
    async with running(policy="echo") as wire:
        _, answer = await wire.chat()
        await wire.chat(tools=[])
        _, stats = await wire.get("/stats")
        assert stats["requests"] == {"/v1/chat/completions": 2}
        assert stats["statuses"] == {"200": 1, "400": 1}
        assert (stats["in_flight"], stats["peak_in_flight"], stats["connections_opened"]) == (0, 1, 1)
        assert stats["completion_tokens"] == answer["usage"]["completion_tokens"]
        _, fresh = await wire.post("/stats/reset")
        assert (fresh["requests_total"], fresh["peak_in_flight"], fresh["connections_opened"]) == (0, 0, 0)
        assert fresh["connections_open"] == 1


async def test_a_connection_that_uvicorn_took_over_is_counted_until_it_ends() -> None:
    async with running() as wire:
        parts = urlsplit(wire.engine.root_url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"HEAD /health HTTP/1.1\r\nHost: engine\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 405")
        _, stats = await wire.get("/stats")
        assert (stats["connections_open"], stats["connections_opened"]) == (2, 2), "this one, and the wire's"
        writer.close()
        await writer.wait_closed()
        await until(lambda: len(wire.engine.stats.connections) == 1)
        assert wire.engine.stats.connections_opened == 2


async def test_requests_in_flight_are_counted_at_their_peak() -> None:
    async with running(latency_s=0.1) as wire:
        await asyncio.gather(*(wire.chat() for _ in range(5)))
        assert (wire.engine.stats.peak_in_flight, wire.engine.stats.in_flight) == (5, 0)


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
async def test_a_client_that_leaves_while_waiting_is_noticed_within_a_second(fields: dict[str, Any]) -> None:
    async with running(latency_s=60) as wire:
        waiting = asyncio.ensure_future(wire.chat(**fields))
        await wire.in_flight(1)
        waiting.cancel()
        await wire.in_flight(0)
        assert wire.engine.stats.disconnects == 1
        assert wire.engine.stats.completion_tokens == 0


async def test_a_client_that_leaves_while_its_request_waits_for_a_slot_is_noticed() -> None:
    async with running(latency_s=60, max_num_seqs=1) as wire:
        working, waiting = (asyncio.ensure_future(wire.chat()) for _ in range(2))
        await wire.in_flight(2)
        waiting.cancel()
        await wire.in_flight(1)
        assert wire.engine.stats.disconnects == 1
        working.cancel()
        await wire.in_flight(0)


async def test_a_client_that_leaves_amid_a_stream_is_noticed() -> None:
    async with running(tokens=1_000, tokens_per_s=50) as wire:
        url = f"{wire.engine.base_url}/chat/completions"
        async with wire.session.post(url, json={"messages": [USER], "stream": True}) as answer:
            await answer.content.readline()
        await wire.in_flight(0)
        assert wire.engine.stats.disconnects == 1


async def test_tokens_come_at_the_pace_that_was_set() -> None:
    loop = asyncio.get_running_loop()
    async with running(tokens=40, tokens_per_s=200) as wire:
        for fields in ({}, {"stream": True}):
            started = loop.time()
            url = f"{wire.engine.base_url}/chat/completions"
            async with wire.session.post(url, json={"messages": [USER], **fields}) as answer:
                await answer.read()
            assert loop.time() - started >= 0.19


async def test_a_stop_ends_requests_that_wait() -> None:
    async with running(latency_s=60) as wire:
        waiting = asyncio.ensure_future(wire.chat())
        await wire.in_flight(1)
        async with asyncio.timeout(30):
            await wire.engine.stop()
        with pytest.raises(aiohttp.ClientError):
            await waiting


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


async def test_answers_and_scripts_are_read_from_their_files(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"match": "1 + 2", "answer": "It is 3."}\n')
    (tmp_path / "script.yaml").write_text("- turns: [{text: As written.}]")
    async with (
        running(policy="answer", answers=tmp_path / "answers.jsonl") as answering,
        running(policy="script", script=tmp_path / "script.yaml") as scripted,
    ):
        _, right = await answering.chat()
        _, written = await scripted.chat()
    assert right["choices"][0]["message"]["content"] == "It is 3."
    assert written["choices"][0]["message"]["content"] == "As written."


async def test_an_engine_works_at_so_many_at_once_lets_some_wait_and_refuses_the_rest() -> None:
    async with running(latency_s=0.2, max_num_seqs=2, max_waiting=1) as wire:
        answers = await asyncio.gather(*(wire.chat() for _ in range(4)))
        assert sorted(status for status, _ in answers) == [200, 200, 200, 429]
        assert (await wire.chat())[0] == 200
