"""replay_model: recorded answers come back to the requests that they were given to, and to no others."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from nemo_gym.engines.recorder import Recorder
from nemo_gym.failures import ConfigError, EngineError
from responses_api_models.replay_model.app import ReplayModel
from responses_api_models.replay_model.recordings import request_key

COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "from chat"}, "finish_reason": "stop"}
    ],
}


def write(path: Path, *lines: Any) -> str:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return str(path)


def replay(*recordings: str) -> ReplayModel:
    server = ReplayModel.standalone(recordings=list(recordings))
    assert isinstance(server, ReplayModel)
    return server


async def said(server: ReplayModel, given: Any, **params: Any) -> str:
    response = await server.respond({"input": given, **params})
    return "".join(part["text"] for part in response["output"][-1]["content"])


def recording(given: Any, answer: Any, **params: Any) -> dict[str, Any]:
    return {"request": {"input": given, **params}, "answer": answer}


async def test_answers_to_one_request_are_given_in_their_order_and_again(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", recording("x", "one"), recording("y", "other"))
    second = write(tmp_path / "b.jsonl", recording("x", "two"))
    server = replay(first, second)
    assert [await said(server, "x") for _ in range(3)] == ["one", "two", "one"]
    assert await said(server, "y") == "other"


async def test_a_request_that_was_never_recorded_is_an_error_that_shows_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", recording("x", "one"))
    with pytest.raises(EngineError, match="no recording matches this request: what is this") as raised:
        await said(replay(path), "what is this")
    assert raised.value.failure.http_status == 404
    assert path in (raised.value.failure.remedy or "")


async def test_a_recorded_object_comes_back_as_it_was(tmp_path: Path) -> None:
    response = {"id": "resp_1", "object": "response", "output": [{"type": "function_call", "id": "fc_1"}]}
    server = replay(write(tmp_path / "a.jsonl", recording("x", response)))
    assert await server.respond({"input": "x"}) == response


async def test_what_a_chat_server_recorded_is_answered_in_both_apis(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "x"}]
    recorder = Recorder(tmp_path / "a.jsonl")
    recorder.add("chat", {"messages": messages}, COMPLETION)
    recorder.close()
    server = replay(str(tmp_path / "a.jsonl"))
    assert await said(server, "x", instructions="Be brief.") == "from chat"
    answer = await server.complete({"messages": messages})
    assert answer["choices"][0]["message"]["content"] == "from chat"


@pytest.mark.parametrize(("ending", "compress"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
async def test_compressed_files_are_read(
    tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.jsonl{ending}"
    path.write_bytes(compress(orjson.dumps(recording("x", "one"))))
    assert await said(replay(str(path)), "x") == "one"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{broken\n", "a.jsonl:1: not JSON"),
        (b'{"request": {"input": "x"}}\n', "a.jsonl:1: a recording needs"),
        (b'\n\n{"request": {"input": "x"}, "answer": {"id": 1}}\n', "a.jsonl:3: .*not a Responses object"),
        (b'{"api": "chat", "request": {}, "answer": {}}\n', "a.jsonl:1: .*messages"),
        (b"[]\n", "a.jsonl:1: a recording needs"),
    ],
)
def test_a_line_that_is_no_recording_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        replay(str(path))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="no recordings file at no/such/file"):
        replay("no/such/file")


# --- What makes two requests the same ---------------------------------------------------------------------------

TEXT = [{"role": "user", "content": "x"}]
CALL = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
PART = {"type": "output_text", "text": "y"}
ANSWER = {"type": "message", "role": "assistant", "content": [PART]}
SAME_ANSWER = {**ANSWER, "id": "msg_1", "content": [{**PART, "annotations": [], "logprobs": None}]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"input": "x"}, {"input": TEXT}),
        (
            {"input": "x"},
            {
                "input": [
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
                ]
            },
        ),
        ({"input": "x"}, {"input": "x", "temperature": 0.5, "model": "m", "metadata": {"a": "b"}}),
        ({"input": "x", "instructions": "s"}, {"input": [{"role": "system", "content": "s"}, *TEXT]}),
        (
            {"input": [CALL]},
            {"input": [{**CALL, "id": "fc_1", "status": "completed", "generation_token_ids": [1]}]},
        ),
        ({"input": [ANSWER]}, {"input": [SAME_ANSWER]}),
    ],
)
def test_spellings_of_the_same_are_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert request_key(one) == request_key(other)


@pytest.mark.parametrize(
    "other",
    [
        {"input": "y"},
        {"input": [{"role": "system", "content": "x"}]},
        {"input": "x", "instructions": "s"},
        {"input": "x", "tools": [{"type": "function", "name": "add"}]},
        {"input": [*TEXT, CALL]},
        {"input": ["x", 5, None]},
    ],
)
def test_what_a_model_would_read_differently_is_different(other: dict[str, Any]) -> None:
    assert request_key({"input": "x"}) != request_key(other)
