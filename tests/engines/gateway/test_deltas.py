from __future__ import annotations

from random import Random
from typing import Any

import pytest

from nemo_gym.engines.gateway.deltas import RequestIndex, with_delta


def random_request(rng: Random, earlier: list[dict[str, Any]]) -> dict[str, Any]:
    base = rng.choice(earlier) if earlier else {"messages": []}
    messages = base["messages"][: rng.randint(0, len(base["messages"]))]
    messages = [
        *messages,
        *({"role": "user", "content": str(rng.random())} for _ in range(rng.randint(0, 3))),
    ]
    fields = {name: rng.randint(0, 1) for name in ("tools", "system", "temperature") if rng.random() < 0.7}
    return {"messages": messages, **fields}


@pytest.mark.parametrize("seed", range(50))
def test_every_request_is_rebuilt_from_what_it_adds(seed: int) -> None:
    rng, index = Random(seed), RequestIndex()
    asked: list[dict[str, Any]] = []
    rebuilt: dict[str | None, tuple[list[Any], dict[str, Any]]] = {}
    for number in range(60):
        body = random_request(rng, asked)
        delta = index.delta_of("chat", body)
        index.add(str(number), "chat", delta)
        items, fields = rebuilt[str(number)] = with_delta(rebuilt.get(delta["base"]), delta)
        assert {"messages": items, **fields} == body
        asked.append(body)


def test_a_turn_adds_only_its_own_messages() -> None:
    index = RequestIndex()
    messages = [{"role": "user", "content": "a"}]
    tools = [{"name": "x" * 10_000}]
    index.add("0", "messages", index.delta_of("messages", {"messages": messages, "tools": tools}))
    messages = [*messages, {"role": "assistant", "content": "b"}]
    delta = index.delta_of("messages", {"messages": messages, "tools": tools})
    assert delta == {"base": "0", "kept": 1, "items": messages[1:], "set": {}}


def test_an_input_that_is_a_text_is_a_field() -> None:
    index = RequestIndex()
    assert index.delta_of("responses", {"input": "hi"})["set"] == {"input": "hi"}
    index.add("0", "responses", index.delta_of("responses", {"input": "hi"}))
    delta = index.delta_of("responses", {"input": [{"role": "user"}]})
    assert with_delta(([], {"input": "hi"}), delta) == ([{"role": "user"}], {})
