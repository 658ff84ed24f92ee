from __future__ import annotations

from random import Random
from typing import Any

import pytest

from nemo_gym.engines.record.deltas import RequestIndex, RequestParts, apply_delta


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
        delta = index.build_delta(RequestParts.from_body("chat", body))
        index.add(str(number), "chat", delta)
        items, fields = rebuilt[str(number)] = apply_delta(rebuilt.get(delta["base"]), delta)
        assert {"messages": items, **fields} == body
        asked.append(body)


def test_a_turn_adds_only_its_own_messages() -> None:
    index = RequestIndex()
    messages = [{"role": "user", "content": "a"}]
    tools = [{"name": "x" * 10_000}]
    asked = RequestParts.from_body("messages", {"messages": messages, "tools": tools})
    index.add("0", "messages", index.build_delta(asked))
    messages = [*messages, {"role": "assistant", "content": "b"}]
    delta = index.build_delta(RequestParts.from_body("messages", {"messages": messages, "tools": tools}))
    assert delta == {"base": "0", "kept": 1, "items": messages[1:], "set": {}}


def test_an_input_that_is_a_text_is_a_field() -> None:
    index = RequestIndex()
    asked = RequestParts.from_body("responses", {"input": "hi"})
    assert index.build_delta(asked)["set"] == {"input": "hi"}
    index.add("0", "responses", index.build_delta(asked))
    delta = index.build_delta(RequestParts.from_body("responses", {"input": [{"role": "user"}]}))
    assert apply_delta(([], {"input": "hi"}), delta) == ([{"role": "user"}], {})


def test_a_digest_is_of_all_parts_in_any_order() -> None:
    one, two = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
    asked = RequestParts.from_body("chat", {"messages": [one], "seed": 1, "n": 1})
    assert asked.digest == RequestParts.from_body("chat", {"n": 1, "seed": 1, "messages": [one]}).digest
    assert asked.replace_fields({"seed": 2}) == RequestParts.from_body(
        "chat", {"messages": [one], "seed": 2, "n": 1}
    )
    others = [
        RequestParts.from_body("messages", {"messages": [one], "seed": 1, "n": 1}),
        RequestParts.from_body("chat", {"messages": [two], "seed": 1, "n": 1}),
        RequestParts.from_body("chat", {"messages": [one, two], "seed": 1, "n": 1}),
        RequestParts.from_body("chat", {"messages": [one], "seed": 1}),
        asked.replace_fields({"seed": 2}),
    ]
    assert len({each.digest for each in (asked, *others)}) == 6
