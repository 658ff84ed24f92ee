"""Laws of a rollout's record, on random agents and an engine whose tokens do not survive decoding and encoding."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from nemo_gym.ecosystem.model_calls import read_model_call_records
from nemo_gym.engines.gateway.reading import build_trace
from nemo_gym.engines.record.store import CaptureStore
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.rebuilding import Rebuilding
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord
from tests.engines.gateway.random_trees import Gateway, RandomAgent, Talk, random_rollout
from tests.engines.gateway.rollouts import bearer
from tests.samples import IS_WHOLE
from tests.tokens.conversations import words

TREES, PARTS = (1000 if IS_WHOLE else 100), 10
"""Random trees, and the tests that share them. `make chaos` plays 1,000."""


@pytest.mark.parametrize("part", range(PARTS))
async def test_the_laws_hold_on_random_trees(tmp_path: Path, part: int) -> None:
    gateway = Gateway(tmp_path, odd_share=0.5)
    for seed in range(part * TREES // PARTS, (part + 1) * TREES // PARTS):
        check_laws(*await random_rollout(gateway, seed), seed)
        gateway.ground.sampled.clear()


def check_laws(agent: RandomAgent, record: dict[str, Any], seed: int) -> None:
    calls, nodes = record["calls"], record["tree"]["nodes"]
    # Each call of the engine is in one node, with exactly the tokens that the engine read and sampled.
    assert len(calls) == len(nodes) == len(agent.calls) == len(agent.truths), seed
    names = [call["model_call_id"] for call in calls]
    assert list(nodes) == names
    rebuilding = Rebuilding()
    read = read_calls({"response": {"output": [{RECORD_FIELD: call["tokens"]} for call in calls]}})
    for each, truth in zip(read, agent.truths, strict=True):
        assert rebuilding.add(each) is None, seed
        assert each.sequence is not None
        assert each.tokens is not None
        assert rebuilding[each.sequence].prompt_ids == truth.prompt_ids, seed
        assert each.tokens.generated == truth.generated_ids, seed
    check_tree(agent, record, seed)
    check_segments(record, agent, seed)


def check_tree(agent: RandomAgent, record: dict[str, Any], seed: int) -> None:
    nodes = list(record["tree"]["nodes"].values())
    names = list(record["tree"]["nodes"])
    for number, (expected, node) in enumerate(zip(agent.calls, nodes, strict=True)):
        parent, beside = (
            names[call] if call is not None else None for call in (expected.parent, expected.beside)
        )
        assert (node["parent"], node["edge"], node["beside"]) == (parent, expected.edge, beside), (
            seed,
            number,
        )


def check_segments(record: dict[str, Any], agent: RandomAgent, seed: int) -> None:
    nodes = record["tree"]["nodes"]
    trained = {call for call, node in nodes.items() if node["untrained"] is None}
    in_segments = [call for segment in record["segments"] for call in segment["calls"]]
    assert sorted(in_segments) == sorted(trained), seed  # each once
    before = {nodes[call][relation] for call in trained for relation in ("parent", "beside")} - {None}
    assert before <= trained, seed  # summaries, and the turns that were kept beside them
    sizes = {call: len(truth.generated_ids) for call, truth in zip(nodes, agent.truths, strict=True)}
    sampled = sum(sum(segment["loss_mask"]) for segment in record["segments"])
    assert sampled == sum(sizes[call] for call in trained), seed
    continued = {node[relation] for node in nodes.values() for relation in ("parent", "beside")}
    for call, expected in zip(nodes, agent.calls, strict=True):
        if expected.copy_of is not None and call not in continued:
            assert nodes[call]["untrained"] == "copy", seed


@pytest.mark.parametrize("api", ["messages", "chat/completions"])
async def test_the_capture_store_shows_a_record_with_whole_requests(tmp_path: Path, api: str) -> None:
    gateway = Gateway(tmp_path)
    rollout = await gateway.control("POST", "", {"rollout_id": "r"})
    agent = RandomAgent(gateway, Random(1), api, bearer(rollout))
    talk = Talk("You are the main agent.", [{"role": "user", "content": "Begin."}])
    for turn in range(3):
        agent.accept(talk, agent.called(talk, await agent.post(talk, uses_tools=False)))
        agent.say(talk, f"Turn {turn}")
    calls = read_model_call_records(CaptureStore(tmp_path), "r")
    assert [call.call_index for call in calls] == [0, 1, 2]
    lead = 0 if api == "messages" else 1
    for call, asked in zip(calls, (1, 3, 5), strict=True):
        assert call.request is not None
        assert call.request["messages"][lead:] == talk.messages[:asked]
        assert (call.status_code, call.tokens_out is not None, call.latency_total_ms is not None) == (
            200,
            True,
            True,
        )


@pytest.mark.parametrize("api", ["messages", "chat/completions"])
async def test_the_bytes_of_a_turn_stay_flat(tmp_path: Path, api: str) -> None:
    gateway = Gateway(tmp_path, odd_share=0.5)
    rollout = await gateway.control("POST", "", {"rollout_id": "r"})
    agent = RandomAgent(gateway, Random(1), api, bearer(rollout))
    talk = Talk("You are the main agent. " * 500, [{"role": "user", "content": "Begin."}])
    for turn in range(50):
        agent.accept(talk, agent.called(talk, await agent.post(talk)))
        agent.say(talk, f"Turn {turn}: {words(agent.rng, 6)}")
    (path,) = (tmp_path / "r").glob("*.jsonl")
    sizes = [len(line) for line in path.read_bytes().splitlines()]
    assert len(sizes) == 50
    assert sum(sizes[-10:]) < 1.5 * sum(sizes[1:11])
    assert sizes[0] > 12_000 > 3 * max(sizes[1:])
    calls = (await gateway.control("GET", "/r"))["calls"]
    assert all(call["tokens"].get("kept", 0) > 0 for call in calls[1:])


async def test_the_subagent_of_a_repeated_call_is_trained(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    rollout = await gateway.control("POST", "", {"rollout_id": "r"})
    agent = RandomAgent(gateway, Random(1), "messages", bearer(rollout))
    sub = Talk("You are a subagent.", [{"role": "user", "content": "Find wood."}])
    main = Talk("You are the main agent.", [{"role": "user", "content": "Go."}])
    agent.accept(main, agent.called(main, await agent.post(main, uses_tools=False)))
    found = agent.called(sub, await agent.post(sub, uses_tools=False))
    agent.say(main, f"The subagent said: {agent.text_of(found)}")
    agent.called(main, await agent.post(main, uses_tools=False))  # a copy, from which nothing goes on
    agent.accept(main, agent.called(main, await agent.post(main, uses_tools=False)))
    agent.say(main, "Go on.")
    agent.called(main, await agent.post(main, uses_tools=False))
    nodes = (await gateway.control("GET", "/r"))["tree"]["nodes"].values()
    assert [node["untrained"] for node in nodes] == [None, None, "copy", None, None]


# --- The trace --------------------------------------------------------------------------------------------------------


ANSWERS: dict[str, dict[str, Any]] = {
    "responses": {
        "model": "m",
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
        ],
    },
    "chat": {
        "model": "m",
        "choices": [
            {
                "message": {
                    "content": "hi",
                    "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"input": "x"}'}}],
                }
            }
        ],
    },
    "messages": {
        "model": "m",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"input": "x"}},
        ],
    },
}
OUTPUTS: dict[str, dict[str, Any]] = {
    "responses": {"type": "custom_tool_call_output", "call_id": "c", "output": "out"},
    "chat": {"role": "tool", "tool_call_id": "c", "content": "out"},
    "messages": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "out"}]},
}


def line(call: str, api: str, items: list[Any], answer: Any, status: int = 200) -> dict[str, Any]:
    request: dict[str, Any] = {"base": None, "kept": 0, "items": items, "set": {}}
    about = {"model_call_id": call, "dialect": api, "started_at": 1.5, "status_code": status}
    return {**about, "request": request, "response": answer}


@pytest.mark.parametrize("api", ANSWERS)
def test_calls_of_every_api_are_items(api: str) -> None:
    lines = [line("a", api, [], ANSWERS[api]), line("b", api, [OUTPUTS[api]], ANSWERS[api])]
    trace = build_trace(lines, {}, {"a", "b"})
    assert trace is not None
    kinds = [item["type"] for item in trace["output"]]
    assert kinds == ["message", "function_call", "function_call_output", "message", "function_call"]
    assert trace["output"][0]["content"][0]["text"] == "hi"
    assert trace["output"][1]["arguments"] == '{"input": "x"}'
    assert trace["output"][2] == {"type": "function_call_output", "call_id": "c", "output": "out"}


def test_the_usage_is_that_of_all_answered_calls() -> None:
    chat = {**ANSWERS["chat"], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    message = {**ANSWERS["messages"], "usage": {"input_tokens": 4, "output_tokens": 1}}
    unknown = ANSWERS["responses"]
    lines = [
        line("title", "chat", [], chat),
        line("main", "messages", [], message),
        line("c", "responses", [], unknown),
        line("failed", "chat", [], chat, 500),
    ]
    trace = build_trace(lines, {}, {"main"})
    assert trace is not None
    assert trace["usage"] == {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    trace = build_trace(lines[2:], {}, {"c"})
    assert trace is not None
    assert trace["usage"] is None


def test_every_record_is_on_one_item_and_other_conversations_are_silent() -> None:
    lines = [
        line("title", "chat", [], ANSWERS["chat"]),
        line("main", "chat", [], ANSWERS["chat"]),
        line("failed", "chat", [], None, 500),
    ]
    records = {"title": CallRecord(call=0), "main": CallRecord(call=1)}
    trace = build_trace(lines, records, {"main"})
    assert trace is not None
    numbers = [item["_ng_tokens"]["call"] for item in trace["output"] if "_ng_tokens" in item]
    assert numbers == [0, 1]
    assert trace["output"][0] == {**trace["output"][0], "type": "reasoning", "summary": []}
    assert build_trace(lines[2:], {}, set()) is None
