"""The record of a call is on its last output item or its message, and its ids are the engine's."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from nemo_gym.engines.tokens.recorder import Ledgers
from nemo_gym.tokens.reasons import SegmentReason
from nemo_gym.tokens.records import RECORD_FIELD
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines.upstreams import Canned, completion, engine_of, vllm_over
from tests.tokens.captures import captured, said

TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
HELLO = {"input": "hello"}
MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}


def trained(engine: Any, **options: Any) -> VLLMModel:
    return vllm_over(engine, return_token_id_information=True, **options)


async def test_ids_are_on_the_last_output_item_and_nowhere_else() -> None:
    response = await trained(engine_of(think=True)).respond({"input": "add", "tools": [TOOL]})
    *others, last = response["output"]
    assert [item["type"] for item in response["output"]] == ["reasoning", "function_call"]
    assert len(last["generation_token_ids"]) == len(last["generation_log_probs"]) > 0
    assert last["prompt_token_ids"]
    assert "masked" not in last[RECORD_FIELD]
    assert not any(field in item for item in others for field in TOKEN_FIELDS)


async def test_ids_are_on_the_message_of_a_chat_completion_and_nowhere_else() -> None:
    answer = await trained(engine_of()).complete(dict(MESSAGES))
    choice = answer["choices"][0]
    assert (
        len(choice["message"]["generation_token_ids"]) == len(choice["message"]["generation_log_probs"]) > 0
    )
    assert choice["message"]["prompt_token_ids"]
    assert "prompt_token_ids" not in answer
    assert "token_ids" not in choice
    assert choice["logprobs"] is None


async def test_a_turn_s_prompt_begins_with_all_that_was_seen_before() -> None:
    server = trained(engine_of(think=True))
    params: dict[str, Any] = {"input": [{"role": "user", "content": "add"}], "tools": [TOOL]}
    seen: list[int] = []
    for _ in range(2):
        last = (response := await server.respond(params))["output"][-1]
        assert last["prompt_token_ids"][: len(seen)] == seen
        seen = last["prompt_token_ids"] + last["generation_token_ids"]
        params["input"] = [*params["input"], *response["output"]]
        if last["type"] == "function_call":
            output = {"type": "function_call_output", "call_id": last["call_id"], "output": "3"}
            params["input"].append(output)


async def test_ids_of_the_history_do_not_travel_to_the_engine() -> None:
    engine = engine_of()
    server = trained(engine)
    first = await server.respond(HELLO)
    masked = {
        "type": "message",
        "role": "assistant",
        "content": [],
        RECORD_FIELD: {"masked": "missing_token_ids"},
    }
    await server.respond({"input": [{"role": "user", "content": "x"}, *first["output"], masked]})
    chat = await server.complete(dict(MESSAGES))
    message = chat["choices"][0]["message"] | {RECORD_FIELD: {"masked": "missing_token_ids"}}
    await server.complete({"messages": [*MESSAGES["messages"], message, *MESSAGES["messages"]]})
    histories = [each.body["messages"] for each in engine.sent if each.body and "messages" in each.body]
    assert len(histories) >= 4
    for message in chain.from_iterable(histories):
        assert not {*TOKEN_FIELDS, RECORD_FIELD} & message.keys()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("tokens_missing", "missing_token_ids"),
        ("logprobs_short_by_one", "short_logprobs"),
        ("logprob_nan", "invalid_logprobs"),
        ("logprob_missing", "invalid_logprobs"),
        ("ids_conflict", "conflicting_token_ids"),
    ],
)
async def test_a_call_whose_ids_cannot_be_trusted_is_masked_and_says_why(fault: str, reason: str) -> None:
    server = trained(engine_of(faults=[{"do": fault}]))
    last = (await server.respond(HELLO))["output"][-1]
    assert last[RECORD_FIELD]["masked"] == reason
    assert not any(field in last for field in TOKEN_FIELDS)
    message = (await server.complete(dict(MESSAGES)))["choices"][0]["message"]
    assert message[RECORD_FIELD]["masked"] == reason
    assert server._noted[f"masked_{reason}"] == 2


@pytest.mark.parametrize("fault", ["prompt_ids_on_choice", "tokens_on_message"])
async def test_ids_are_found_where_other_engines_put_them(fault: str) -> None:
    server = trained(engine_of(faults=[{"do": fault}]))
    last = (await server.respond(HELLO))["output"][-1]
    assert all(last[field] for field in TOKEN_FIELDS)


async def test_logprobs_that_the_caller_reads_have_the_tokens_texts() -> None:
    server = trained(engine_of())
    params = {**HELLO, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    last = (await server.respond(params))["output"][-1]
    logprobs = last["content"][0]["logprobs"]
    assert "".join(entry["token"] for entry in logprobs) == last["content"][0]["text"]
    assert len(logprobs[0]["top_logprobs"]) == 2
    assert last["generation_token_ids"]
    asked = {**MESSAGES, "logprobs": True}
    choice = (await server.complete(asked))["choices"][0]
    assert choice["logprobs"]["content"][0]["token"].startswith("N")
    assert choice["message"]["generation_token_ids"]


async def test_experts_are_passed_on() -> None:
    named = {"token": "token_id:7", "logprob": -0.5}
    choice = {"token_ids": [7], "logprobs": {"content": [named]}, "routed_experts": "base64"}
    canned = Canned().add(200, completion({"content": "x"}, choice=choice, prompt_token_ids=[1]))
    assert (await trained(canned).respond(HELLO))["output"][-1]["routed_experts"] == "base64"


# --- Ledgers of sessions ----------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_sessions_that_are_silent_for_long_are_dropped() -> None:
    clock = Clock()
    ledgers = Ledgers(idle_s=60, clock=clock)
    ledgers.add("old", captured([1], [2]))
    clock.now = 61
    ledgers.add("new", captured([1], [2]))
    assert len(ledgers) == 1
    assert ledgers.held_ids == 2


def test_a_full_ledger_drops_the_ids_of_the_longest_idle_session() -> None:
    ledgers = Ledgers(room_mb=10 * 4 / 1e6)
    for session in ("a", "b", "c"):
        ledgers.add(session, captured([1, 2, 3], [4]), said("q", session))
    assert ledgers.held_ids == 8
    extended = captured([1, 2, 3, 4, 5], [6])
    assert ledgers.add("c", extended, said("q", "c", "x", "y")).reason is None
    assert ledgers.add("a", extended, said("q", "a", "x", "y")).reason is SegmentReason.UNLINKED


def test_a_closed_session_leaves_nothing() -> None:
    ledgers = Ledgers()
    ledgers.add("a", captured([1], [2]))
    ledgers.drop("a")
    ledgers.drop("a")
    assert (len(ledgers), ledgers.held_ids) == (0, 0)


def test_calls_without_a_session_are_alone() -> None:
    ledgers = Ledgers()
    assert ledgers.add(None, captured([1], [2])).reason is None
    assert ledgers.add(None, captured([1], [2])).call == ledgers.add_masked(None) == 0
    assert len(ledgers) == 0
