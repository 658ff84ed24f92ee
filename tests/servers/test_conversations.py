"""A long conversation travels to the model server once, and the engine is asked the same as if it had not."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pydantic import Field

from nemo_gym.failures import InputError
from nemo_gym.mock_engine import EngineOptions, MockEngine, Reply, ScriptPolicy, ToolCall
from nemo_gym.mock_engine.policies import Scene
from nemo_gym.servers.conversations import NOT_FOUND, Conversations, Turn
from nemo_gym.servers.engine_model import EngineModel
from nemo_gym.servers.policy import user_message
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport import Call, InMemoryTransport
from nemo_gym.transport import Reply as HttpReply
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.scripted_model.app import ScriptedModel
from tests.servers.environments import CounterEnvironment, call, text
from tests.servers.environments import ScriptedModel as ForeignModel

TURNS = 8
ADD = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}},
    "strict": False,
}
LONG = {"input": "Add. " * 4000, "tools": [ADD]}
REPLIES = (
    *(Reply(tool_calls=(ToolCall("add", f'{{"amount": {amount}}}'),)) for amount in range(TURNS - 1)),
    Reply("done"),
)


# --- The conversations of a server --------------------------------------------------------------------------------


def said(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


def go_on(kept: Conversations, name: str | None, *words: str) -> Turn:
    before = {"previous_response_id": name} if name else {}
    return kept.turn({"input": [said(each) for each in words], "temperature": 0.5, **before})


def answer(*words: str) -> dict[str, Any]:
    return {"id": "always the same", "output": [text(each) for each in words]}


def test_a_request_that_goes_on_holds_the_whole_conversation() -> None:
    kept = Conversations(1)
    first = kept.keep(go_on(kept, None, "a", "b"), answer("c"))
    second = kept.keep(go_on(kept, first, "d"), answer("e"))
    turn = go_on(kept, second, "f")
    assert turn.params == {
        "input": [said("a"), said("b"), text("c"), said("d"), text("e"), said("f")],
        "temperature": 0.5,
    }


def test_text_alone_is_what_the_user_says_next() -> None:
    kept = Conversations(1)
    first = kept.keep(kept.turn({"input": "a"}), answer("b"))
    turn = kept.turn({"input": "c", "previous_response_id": first})
    assert turn.params == {"input": [user_message("a"), text("b"), user_message("c")]}


@pytest.mark.parametrize("name", ["unknown", ["no name"], {}, 7])
def test_a_conversation_that_is_not_kept_is_not_found_whatever_its_name(name: object) -> None:
    with pytest.raises(InputError) as refused:
        Conversations(1).turn({"input": "a", "previous_response_id": name})
    assert (refused.value.failure.code, refused.value.failure.http_status) == (NOT_FOUND, 400)


def test_tokens_are_not_kept() -> None:
    kept = Conversations(1)
    name = kept.keep(go_on(kept, None, "a"), {"output": [{**text("b"), "generation_token_ids": [1]}]})
    assert go_on(kept, name).params["input"] == [said("a"), text("b")]


def test_a_conversation_may_go_on_in_two_ways_and_twice_in_the_same() -> None:
    kept = Conversations(1)
    name = kept.keep(go_on(kept, None, "a"), answer("b"))
    ways = {word: kept.keep(go_on(kept, name, word), answer(word.upper())) for word in ("x", "y", "x")}
    for word, way in ways.items():
        assert go_on(kept, way).params["input"] == [said("a"), text("b"), said(word), text(word.upper())]


def test_two_requests_at_once_go_on_apart() -> None:
    kept = Conversations(1)
    name = kept.keep(go_on(kept, None, "a"), answer("b"))
    one, two = go_on(kept, name, "x"), go_on(kept, name, "y")
    assert go_on(kept, kept.keep(one, answer("X"))).params["input"][2:] == [said("x"), text("X")]
    assert go_on(kept, kept.keep(two, answer("Y"))).params["input"][2:] == [said("y"), text("Y")]


def test_room_is_bounded_and_what_was_untouched_longest_goes_first() -> None:
    kept = Conversations(0.01)
    old, new = (kept.keep(go_on(kept, None, word * 4000), answer("ok")) for word in "ab")
    old = kept.keep(go_on(kept, old, "still here"), answer("ok"))
    assert kept.keep(go_on(kept, None, "c" * 4000), answer("ok"))
    assert go_on(kept, old)
    with pytest.raises(InputError) as raised:
        go_on(kept, new)
    assert (raised.value.failure.code, raised.value.failure.status) == ("previous_response_not_found", 400)
    assert kept.size <= 10_000
    assert len(kept) == 2


def test_a_conversation_that_outgrows_the_room_makes_no_other_go() -> None:
    kept = Conversations(0.001)
    small = kept.keep(go_on(kept, None, "a"), answer("b"))
    large = kept.keep(go_on(kept, None, "c"), answer("d"))
    assert kept.keep(go_on(kept, large, "e" * 1_000), answer("f")) is None
    assert len(kept) == 1
    assert go_on(kept, small, "g").params["input"] == [said("a"), text("b"), said("g")]
    with pytest.raises(InputError):
        go_on(kept, large, "h")


def test_what_does_not_fit_is_not_kept() -> None:
    kept = Conversations(0)
    assert kept.keep(go_on(kept, None, "a"), answer("b")) is None
    assert (kept.size, len(kept)) == (0, 0)
    assert Conversations(1).keep(Conversations(1).turn({"input": None}), answer("b")) is None


# --- Agents and model servers -------------------------------------------------------------------------------------


class Tapped(InMemoryTransport):
    """Remembers what the model server is sent, and may do something before."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.before: Any = None

    async def send(self, base_url: str, call: Call) -> HttpReply:
        if call.path == "/v1/responses":
            self.calls.append(call)
            if self.before is not None:
                self.before(len(self.calls))
        return await super().send(base_url, call)

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [orjson.loads(call.body or b"") for call in self.calls]


class Seen(ScriptedModel):
    """Remembers what its engine is asked."""

    asked: list[dict[str, Any]] = Field(default_factory=list)

    def new_engine(self) -> MockEngine:
        return MockEngine(EngineOptions(model="mock"), policy=ScriptPolicy((Scene(REPLIES),)))

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params)
        return await super().respond(params)


class Played:
    """One attempt of TURNS turns."""

    def __init__(self, **model: Any) -> None:
        self.gym = InProcessGym()
        self.tap = self.gym.transport = self.gym._over = Tapped()
        self.gym.add(CounterEnvironment, "env")
        server = self.gym.add(Seen, "policy_model", model="mock", **model)
        assert isinstance(server, Seen)
        self.server = server
        self.gym.add(
            SimpleAgent,
            "agent",
            resources_server={"type": "resources_servers", "name": "env"},
            model_server={"type": "responses_api_models", "name": "policy_model"},
        )

    async def play(self) -> dict[str, Any]:
        return await self.gym.run("agent", {"responses_create_params": LONG})


def asked_alike(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Whether two attempts asked the engine the same, ids aside."""
    return [_without_ids(params) for params in one] == [_without_ids(params) for params in other]


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ids(each) for key, each in value.items() if key not in ("id", "call_id")}
    return [_without_ids(each) for each in value] if isinstance(value, list) else value


async def test_the_engine_is_asked_the_same_and_the_history_travels_once() -> None:
    whole, kept = Played(history_room_mb=0), Played()
    rows = [await played.play() for played in (whole, kept)]
    assert [row["reward"] for row in rows] == [21.0, 21.0]
    assert asked_alike(whole.server.asked, kept.server.asked)
    assert all("previous_response_id" not in params for params in kept.server.asked)
    assert [len(call.body or b"") > 16_384 for call in whole.tap.calls] == [True] * TURNS
    # The first two turns are sent whole: only then is it a conversation that goes on.
    assert [len(call.body or b"") > 16_384 for call in kept.tap.calls] == [True] * 2 + [False] * (TURNS - 2)
    assert all(
        [item["type"] for item in body["input"]] == ["function_call_output"] for body in kept.tap.sent[2:]
    )


async def test_a_server_that_has_forgotten_is_told_everything_once_more() -> None:
    whole, kept = Played(history_room_mb=0), Played()

    def restart(call: int) -> None:
        if call == 5:
            kept.server._conversations = Conversations(64)

    kept.tap.before = restart
    await whole.play()
    assert (await kept.play())["reward"] == 21.0
    assert asked_alike(whole.server.asked, kept.server.asked)
    refused = kept.tap.sent[4]
    assert "previous_response_id" in refused
    # From then on the whole conversation travels: a server that forgets once will forget again.
    assert all("previous_response_id" not in body for body in kept.tap.sent[5:])
    assert len(kept.tap.calls) == TURNS + 1


async def test_a_server_that_keeps_nothing_is_sent_everything() -> None:
    gym = InProcessGym()
    gym.transport = gym._over = tap = Tapped()
    gym.add(CounterEnvironment, "env")
    model = gym.add(ForeignModel, "policy_model")
    assert isinstance(model, ForeignModel)
    model.turns = [[call("add", '{"amount": 1}')]] * 4 + [[text("done")]]
    gym.add(
        SimpleAgent,
        "agent",
        resources_server={"type": "resources_servers", "name": "env"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    assert (await gym.run("agent", {"responses_create_params": LONG}))["reward"] == 4.0
    assert [len(body["input"]) for body in tap.sent] == [1, 3, 5, 7, 9]


async def test_a_short_conversation_is_not_kept() -> None:
    played = Played()
    await played.gym.run("agent", {"responses_create_params": {**LONG, "input": "Add."}})
    assert all("x-ng-history" not in call.headers for call in played.tap.calls)
    assert len(played.server._conversations) == 0


async def test_without_the_header_a_previous_response_is_the_engine_s_to_know() -> None:
    """A client of OpenAI's API doesn't come upon conversations of agents."""
    played = Played()
    await played.play()
    assert isinstance(played.server, EngineModel)
    name = next(iter(played.server._conversations._by_name))
    reply = await played.gym.post(
        "policy_model", "/v1/responses", {"input": "hello", "previous_response_id": name}
    )
    assert reply.status == 422
    assert "previous_response_id" in reply.body.decode()
