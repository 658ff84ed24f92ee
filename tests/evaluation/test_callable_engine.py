from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from nemo_gym.evaluation.callable_engine import ModelFunction, serve_function
from nemo_gym.testing.serving import LoopbackServers


@contextmanager
def served(function: ModelFunction) -> Iterator[str]:
    with ExitStack() as opened:
        yield opened.enter_context(LoopbackServers()).enter(serve_function(function))


def ask(url: str, **body: Any) -> dict[str, Any]:
    request = Request(f"{url}/v1/chat/completions", json.dumps(body).encode())
    with urlopen(request) as answer:
        completion: dict[str, Any] = json.load(answer)
    return completion


def test_a_text_is_the_answer() -> None:
    with served(lambda request: request["messages"][-1]["content"].upper()) as url:
        completion = ask(url, messages=[{"role": "user", "content": "hello"}])
        with urlopen(f"{url}/v1/models") as models:
            assert json.load(models)["data"][0]["id"] == completion["model"] == "function"
    assert completion["choices"][0]["message"] == {"role": "assistant", "content": "HELLO"}
    assert completion["choices"][0]["finish_reason"] == "stop"


def test_tool_calls_are_completed() -> None:
    async def model(request: dict[str, Any]) -> dict[str, Any]:
        long = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
        return {"tool_calls": [{"name": "add", "arguments": {"a": 2}}, long]}

    with served(model) as url:
        choice = ask(url, messages=[])["choices"][0]
    short, long = choice["message"]["tool_calls"]
    assert (short["type"], short["function"]) == ("function", {"name": "add", "arguments": '{"a": 2}'})
    assert short["id"]
    assert long["id"] == "c1"
    assert long["function"]["arguments"] == '{"a":1}'
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda request: request["absent"], "KeyError: 'absent'"),
        (lambda request: 7, "the model function returned int, not a text or a message"),
    ],
)
def test_an_error_is_answered_with_its_text(function: ModelFunction, text: str) -> None:
    with served(function) as url, pytest.raises(HTTPError) as refused:
        ask(url, messages=[])
    with refused.value as answer:
        assert json.load(answer)["error"]["message"] == text
