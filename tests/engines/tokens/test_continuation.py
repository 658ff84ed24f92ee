"""An aborted generation goes on from its sampled tokens, and is what it would have been without the abort."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from nemo_gym.engines.pausing import EnginePause, PauseMode
from nemo_gym.engines.policy import PolicyUpdate
from nemo_gym.engines.record.tape import EngineTape, current_tape
from nemo_gym.engines.tokens.continuation import can_continue
from nemo_gym.failures import EngineError
from nemo_gym.mock_engine import EngineOptions, ModelReply, ToolCall
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.engine import Engine
from nemo_gym.mock_engine.policies import Scene, ScriptPolicy
from nemo_gym.mock_engine.token_input import TokenInputApp
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from nemo_gym.transport.context import RequestContext, current_context
from responses_api_models.vllm_model.app import VLLMModel
from tests.tokens.conversations import TOOLS, model_server

REPLY = ModelReply(
    "I shall look it up.", "The user wants the weather.", (ToolCall("weather", '{"q":"Zürich 雪"}'),)
)
ASKED: dict[str, Any] = {"input": "The weather?", "tools": TOOLS, "temperature": 1.0}
TEXT = ModelReply("It is raining, and it goes on and on, until it ends.")


class Stub:
    """An engine of one reply, and a model server in front of it."""

    def __init__(
        self,
        reply: ModelReply,
        *,
        faults: Any = None,
        takes_ids: bool = True,
        server: Any = None,
        **options: Any,
    ) -> None:
        given = EngineOptions(model="mock", faults=faults, **options)
        self.app = EngineApp(Engine(given, policy=ScriptPolicy((Scene((reply,)),))))
        app: Any = TokenInputApp(self.app) if takes_ids else self.app
        self.server: VLLMModel = model_server(app, **(server or {}))
        self.notes: list[str] = []
        self.server._completions._take_notes = self.notes.extend

    async def respond(self, **changed: Any) -> dict[str, Any]:
        current_context.set(RequestContext("session", None))
        answer = await self.server.respond({**ASKED, **changed})
        return dict(orjson.loads(orjson.dumps(answer)))

    @property
    def sampled_tokens(self) -> int:
        return self.app.stats.completion_tokens


def describe(response: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a trainer gets of a response: its output, ids, log-probabilities, mask, finish and usage."""
    records = read_calls({"response": response})
    segments = [(each.token_ids, each.loss_mask, each.logprobs) for each in build_segments(records)]
    (record,) = records
    names = ("type", "content", "name", "arguments", "summary")
    output = [{name: item[name] for name in names if name in item} for item in response["output"]]
    for item in output:
        for part in item.get("content") or ():
            part.pop("logprobs", None)
    usage = [response["usage"][name] for name in ("input_tokens", "output_tokens", "total_tokens")]
    return output, segments, record.finish, record.masked, usage, response["status"]


async def uninterrupted(reply: ModelReply, **changed: Any) -> tuple[Any, ...]:
    return describe(await Stub(reply).respond(**changed))


async def count_tokens(reply: ModelReply) -> int:
    stub = Stub(reply)
    await stub.respond()
    return stub.sampled_tokens


async def test_a_generation_aborted_at_any_token_is_what_it_would_have_been() -> None:
    """Within reasoning, within a call of a tool, before the first token and before the last one."""
    whole, count = await uninterrupted(REPLY), await count_tokens(REPLY)
    assert count > 20
    for token in range(count):
        stub = Stub(REPLY, faults=[{"do": "finish_abort", "at_token": token, "nth": 1}])
        assert describe(await stub.respond()) == whole, token
        assert stub.sampled_tokens == count, "no token is sampled twice"
        assert stub.notes == (["continued_generation"] if token else ["restarted_generation"])


async def test_a_generation_may_be_aborted_many_times() -> None:
    whole, count = await uninterrupted(REPLY), await count_tokens(REPLY)
    stub = Stub(REPLY, faults=[{"do": "finish_abort", "at_token": 3, "nth": list(range(1, 7))}])
    assert describe(await stub.respond()) == whole
    assert stub.sampled_tokens == count
    assert stub.notes == ["continued_generation"] * 6


async def test_without_routes_for_ids_a_text_goes_on_by_completions_and_a_call_of_a_tool_is_asked_again() -> (
    None
):
    whole, fault = await uninterrupted(TEXT, tools=[]), {"do": "finish_abort", "at_token": 7, "nth": 1}
    stub = Stub(TEXT, faults=[fault], takes_ids=False)
    assert describe(await stub.respond(tools=[])) == whole
    assert stub.notes == ["continued_generation"]
    stub = Stub(REPLY, faults=[fault], takes_ids=False)
    assert describe(await stub.respond()) == await uninterrupted(REPLY)
    assert stub.notes == ["restarted_generation"]


async def test_the_limit_of_tokens_counts_all_parts() -> None:
    fault = {"do": "finish_abort", "at_token": 5, "nth": 1}
    for takes_ids in (True, False):
        whole = await uninterrupted(TEXT, tools=[], max_output_tokens=9)
        stub = Stub(TEXT, faults=[fault], takes_ids=takes_ids)
        assert describe(await stub.respond(tools=[], max_output_tokens=9)) == whole
        assert whole[-1] == "incomplete"
        stub = Stub(TEXT, faults=[{**fault, "at_token": 8}], takes_ids=takes_ids)
        assert describe(await stub.respond(tools=[], max_output_tokens=9)) == whole


@pytest.mark.parametrize(
    "field",
    [
        {"stop": ["ends"]},
        {"presence_penalty": 0.5},
        {"frequency_penalty": 0.5},
        {"bad_words": ["x"]},
        {"structured_outputs": {"json": {}}},
        {"tool_choice": "required"},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_what_an_engine_begins_anew_is_not_continued(field: dict[str, Any]) -> None:
    assert can_continue({"temperature": 0.7, "seed": 1, "min_tokens": 3, "repetition_penalty": 1.1})
    assert not can_continue(field)


async def test_the_treatment_of_an_abort_is_chosen() -> None:
    fault, count = {"do": "finish_abort", "at_token": 5, "nth": 1}, await count_tokens(REPLY)
    stub = Stub(REPLY, faults=[fault], server={"on_abort": "retry"})
    assert describe(await stub.respond()) == await uninterrupted(REPLY)
    assert (stub.notes, stub.sampled_tokens) == (["restarted_generation"], count + 5)
    stub = Stub(REPLY, faults=[fault], server={"on_abort": "fail"})
    with pytest.raises(EngineError) as raised:
        await stub.respond()
    assert (raised.value.failure.code, raised.value.failure.retryable) == ("engine_abort", True)


async def test_an_engine_that_aborts_without_a_token_fails_the_call() -> None:
    stub = Stub(REPLY, faults=[{"do": "finish_abort", "at_token": 0}])
    with pytest.raises(EngineError, match="again and again"):
        await stub.respond()
    assert stub.sampled_tokens == 0


async def test_the_versions_of_the_parts_are_in_the_record() -> None:
    """A pause aborts a running generation; the new weights sample the rest of it."""
    whole = await uninterrupted(REPLY)
    stub = Stub(REPLY, tokens_per_s=40)
    await stub.server.update_policy(PolicyUpdate(version=1))
    call = asyncio.create_task(stub.respond())
    for version in (2, 3):
        await asyncio.sleep(0.2)
        await stub.server._pausing.pause(EnginePause(mode=PauseMode.ABORT))
        assert stub.app.stats.in_flight == 0
        await asyncio.sleep(0.05)
        assert not call.done()
        await stub.server.update_policy(PolicyUpdate(version=version))
        await stub.server._pausing.resume(EnginePause())
    response = await call
    (record,) = read_calls({"response": response})
    assert record.tokens is not None
    starts, versions = zip(*record.versions, strict=True)
    assert versions == (1, 2, 3)
    assert 0 == starts[0] < starts[1] < starts[2] < len(record.tokens.generated)
    assert (record.policy_version, record.policy_version_end) == (1, 3)
    assert describe(response) == whole
    (segment,) = build_segments([record])
    assert segment.mask_versions([record], 3, otherwise=0).sampled == segment.sampled - starts[2]


async def test_a_replayed_call_has_the_parts_and_the_versions_of_the_recorded_one() -> None:
    fault = {"do": "finish_abort", "at_token": 5, "nth": [1, 2]}
    stub, tape = Stub(REPLY, faults=[fault]), EngineTape()
    await stub.server.update_policy(PolicyUpdate(version=1))
    current_tape.set(tape)

    def update_later(_: Any) -> None:
        stub.server._policy.change(2, drop_in_flight=False)

    stub.server._completions._take_notes = update_later  # after the second part has its version
    live = await stub.respond()
    (record,) = read_calls({"response": live})
    assert (
        [list(each) for each in record.versions] == [[0, 1], [10, 2]] == [list(each) for each in tape.parts]
    )
    asked = stub.app.stats.requests["/inference/v1/generate"]
    stub.server._policy.change(7, drop_in_flight=False)
    current_tape.set(EngineTape(tape.replies, tape.versions, parts=tape.parts))
    current_context.set(RequestContext("another session", None))
    again = await stub.server.respond({**ASKED})
    (replayed,) = read_calls({"response": orjson.loads(orjson.dumps(again))})
    assert replayed == record
    assert stub.app.stats.requests["/inference/v1/generate"] == asked
