"""Recorded and replayed calls of a model server, in every API, streamed and not."""

from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from nemo_gym.engines.attempts.record import read_attempt
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.serving.durable.plans import ReplayMode, ReplayPlan
from nemo_gym.transport.context import CALL_HEADER, SESSION_HEADER, VERIFYING
from tests.engines.gateway.rollouts import WITH_TOKEN, gateway

RUN = "d0123456789ab"
FIRST, SECOND = f"{RUN}.0.0.a0", f"{RUN}.0.0.a1"
CALLS: dict[str, dict[str, Any]] = {
    "/v1/responses": {"input": "hello"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 50, "model": "m"},
}


TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]


class Server:
    """A model server in front of a counting engine, that was told of a durable run."""

    def __init__(self, folder: Path, engine: MockEngine | None = None, durability: str = "process") -> None:
        self.engine = engine or MockEngine(EngineOptions(model="mock", policy="echo"))
        self.folder = folder / "out_attempts"
        self.folder.mkdir(exist_ok=True)
        self.client: TestClient = gateway(folder / "calls", self.engine.app, return_token_id_information=True)
        body = {"run": RUN, "folder": str(self.folder), "durability": durability}
        told = self.client.post("/ng-durable-runs", json=body, headers=WITH_TOKEN)
        assert told.status_code == 200, told.text

    def call(self, session: str, path: str = "/v1/responses", body: Any = None, **headers: str) -> Any:
        named = {SESSION_HEADER: session, **WITH_TOKEN, **headers}
        return self.client.post(path, json=body or CALLS[path], headers=named)

    @property
    def asked(self) -> int:
        """The calls that the engine has answered."""
        return self.engine.app.stats.requests["/v1/chat/completions"]

    def read(self, session: str) -> Any:
        return read_attempt(self.folder / session.removeprefix(f"{RUN}."))

    def plan(self, session: str, source: str = FIRST, **terms: Any) -> None:
        folder = self.folder / source.removeprefix(f"{RUN}.")
        plan = ReplayPlan(mode=ReplayMode.CONTINUE, source=folder, **terms)
        plan.write(self.folder / session.removeprefix(f"{RUN}."))


def strip(answer: Any) -> Any:
    """An answer without random ids and times."""
    return json.loads(
        json.dumps(answer),
        object_hook=lambda each: {
            key: value for key, value in each.items() if key not in ("id", "created_at", "created")
        },
    )


def test_a_record_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.plan(SECOND)
    refused = server.call(SECOND)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "replay_missing"), refused.text
    assert str(tmp_path) in refused.json()["error"]["message"]
    assert server.asked == 0


@pytest.mark.parametrize("path", CALLS)
def test_a_recorded_call_is_answered_again_without_the_engine(tmp_path: Path, path: str) -> None:
    server = Server(tmp_path)
    first = server.call(FIRST, path)
    assert first.status_code == 200, first.text
    (recorded,) = server.read(FIRST).calls
    assert (recorded.server, recorded.status, recorded.is_answered) == ("policy_model", 200, True)
    asked = server.asked
    server.plan(SECOND)
    again = server.call(SECOND, path)
    assert strip(again.json()) == strip(first.json())
    assert server.asked == asked
    (replayed,) = server.read(SECOND).calls
    assert replayed.replayed == recorded.call
    server.call(SECOND, path)
    assert server.asked == asked + 1, "the record is used up"


@pytest.mark.parametrize("path", CALLS)
def test_a_streamed_call_is_recorded_and_replayed_as_a_whole_one(tmp_path: Path, path: str) -> None:
    server = Server(tmp_path)
    body = {**CALLS[path], "stream": True}
    first = server.call(FIRST, path, body)
    assert "text/event-stream" in first.headers["content-type"]
    asked = server.asked
    server.plan(SECOND)
    again = server.call(SECOND, path, body)
    assert server.asked == asked
    assert len(again.text.splitlines()) == len(first.text.splitlines())
    assert server.read(SECOND).calls[0].replayed is not None


def test_calls_of_another_session_and_of_a_verifier_are_not_recorded(tmp_path: Path) -> None:
    server = Server(tmp_path)
    for session, headers in [("mine", {}), ("d00000000dead.0.0.a0", {}), (FIRST, {CALL_HEADER: VERIFYING})]:
        assert server.call(session, **headers).status_code == 200
    assert list(server.folder.glob("*/*")) == []


def test_a_call_that_is_sent_again_is_answered_once_by_the_engine(tmp_path: Path) -> None:
    server = Server(tmp_path)
    first = server.call(FIRST, **{CALL_HEADER: "one"})
    asked = server.asked
    assert strip(server.call(FIRST, **{CALL_HEADER: "one"}).json()["output"][0]["content"]) == strip(
        first.json()["output"][0]["content"]
    )
    assert server.asked == asked
    later = Server(tmp_path, server.engine)
    later.call(FIRST, **{CALL_HEADER: "one"})
    assert server.asked == asked, "also by a process that began later"
    server.call(FIRST, **{CALL_HEADER: "two"})
    assert server.asked == asked + 1
    assert len(server.read(FIRST).calls) == 2


def test_an_attempt_in_the_folder_of_a_settled_one_has_calls_of_its_own_only(tmp_path: Path) -> None:
    server, other = Server(tmp_path), f"{RUN}.1.0.a0"
    server.call(FIRST, **{CALL_HEADER: "one"})
    server.call(FIRST, body={"input": "settled"}, **{CALL_HEADER: "two"})
    (server.folder / "0.0.a0").rename(server.folder / "1.0.a0")
    assert server.read(other).calls == []
    asked = server.asked
    server.call(other, **{CALL_HEADER: "one"})
    assert server.asked == asked + 1, "the answer of the settled attempt is not its own"
    assert server.call(FIRST, body={"input": "late"}).status_code == 200
    assert [call.sent for call in server.read(other).calls] == ["one"]
    assert not (server.folder / "0.0.a0").exists(), "a late call brings no record back"
    assert b"settled" not in next((server.folder / "1.0.a0").iterdir()).read_bytes()
    asked = server.asked
    Server(tmp_path, server.engine).call(other, **{CALL_HEADER: "one"})
    assert server.asked == asked, "a process that begins later knows it"


def test_a_process_that_begins_in_the_middle_of_a_replay_goes_on_with_it(tmp_path: Path) -> None:
    server = Server(tmp_path)
    answer = server.call(FIRST).json()
    more = {
        "input": [{"role": "user", "content": "hello"}, *answer["output"], {"role": "user", "content": "2"}]
    }
    for item in more["input"]:
        item.pop("_ng_tokens", None)
    server.call(FIRST, body=more)
    asked = server.asked
    server.plan(SECOND)
    server.call(SECOND)
    later = Server(tmp_path, server.engine)
    assert later.call(SECOND, body=more).status_code == 200
    assert server.asked == asked
    assert [call.replayed is not None for call in later.read(SECOND).calls] == [True, True]


def test_a_mismatch_refuses_this_and_every_further_call(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.call(FIRST)
    asked = server.asked
    server.plan(SECOND)
    for _ in range(2):
        refused = server.call(SECOND, body={"input": "hullo"})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (400, "replay_mismatch")
        assert "at turn 1 (user), character 1: recorded 'hello', now 'hullo'" in error["message"]
    assert server.asked == asked
    (mismatch,) = server.read(SECOND).mismatches
    assert (mismatch["call"], mismatch["turn"], mismatch["place"]) == (1, 1, 1)


def test_an_engine_that_refuses_a_prompt_does_so_again(tmp_path: Path) -> None:
    engine = MockEngine(EngineOptions(model="mock", policy="echo", max_model_len=40))
    server = Server(tmp_path, engine)
    long = {"input": "hello " * 50}
    first = server.call(FIRST, body=long)
    asked = server.asked
    server.plan(SECOND)
    again = server.call(SECOND, body=long)
    assert (again.status_code, strip(again.json())) == (first.status_code, strip(first.json()))
    assert server.asked == asked
    (recorded,), (replayed,) = server.read(FIRST).calls, server.read(SECOND).calls
    assert replayed.replayed == recorded.call, "else the attempt seems to have repeated too few calls"


def test_a_fork_answers_its_calls_only_and_compares_the_next_request(tmp_path: Path) -> None:
    server = Server(tmp_path)
    answer = server.call(FIRST, body={"input": "hello", "seed": 3}).json()
    more = {
        "input": [{"role": "user", "content": "hello"}, *answer["output"], {"role": "user", "content": "2"}]
    }
    for item in more["input"]:
        item.pop("_ng_tokens", None)
    server.call(FIRST, body=more)
    asked = server.asked
    server.plan(SECOND, calls={"policy_model": 1}, seed=5)
    server.call(SECOND)
    assert server.asked == asked
    other = {"input": [*more["input"][:-1], {"role": "user", "content": "3"}]}
    refused = server.call(SECOND, body=other)
    assert refused.json()["error"]["code"] == "replay_mismatch"
    third = f"{RUN}.0.0.a2"
    server.plan(third, calls={"policy_model": 1})
    server.call(third)
    assert server.call(third, body=more).status_code == 200
    assert server.asked == asked + 1, "it is live"


def test_a_record_that_cannot_be_written_ends_the_durability_and_not_the_attempt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path)
    path = server.folder / "0.0.a0"
    path.write_text("no folder")
    with caplog.at_level(logging.WARNING):
        assert server.call(FIRST).status_code == 200
    assert f"attempt {FIRST} is durable no more" in caplog.text
    path.unlink()
    assert server.call(FIRST).status_code == 200
    assert server.read(FIRST).calls == [], "nothing is recorded after a gap"


def test_lines_of_a_run_that_survives_its_node_are_recorded_alike(tmp_path: Path) -> None:
    server = Server(tmp_path, durability="node")
    server.call(FIRST)
    assert len(server.read(FIRST).list_answered()) == 1


def test_the_policy_version_of_a_replayed_call_is_the_recorded_one(tmp_path: Path) -> None:
    server = Server(tmp_path)
    update = {"drop_in_flight": False, "everywhere": False}
    server.client.post("/policy_version", json={"version": 3, **update}, headers=WITH_TOKEN)
    first = server.call(FIRST).json()
    server.client.post("/policy_version", json={"version": 9, **update}, headers=WITH_TOKEN)
    server.plan(SECOND)
    again = server.call(SECOND).json()
    assert first["output"][-1]["_ng_tokens"]["policy_version"] == 3
    assert again["output"][-1]["_ng_tokens"] == first["output"][-1]["_ng_tokens"]
    third = f"{RUN}.0.0.a2"
    server.plan(third, max_staleness=5)
    stale = server.call(third).json()["error"]
    assert (stale["code"], stale["retryable"]) == ("replay_stale", True)


def test_an_answer_without_an_engine_is_given_again_as_it_was(tmp_path: Path) -> None:
    server = Server(tmp_path)
    session = {"input": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}]}
    first = server.call(FIRST, body=session)
    server.plan(SECOND)
    assert orjson.loads(server.call(SECOND, body=session).content) is not None
    assert first.status_code == 200


def go_on(answer: Any, asked: list[Any], more: str) -> list[Any]:
    """The input that goes on after an answer."""
    said = [
        {name: value for name, value in item.items() if name != "_ng_tokens"} for item in answer["output"]
    ]
    return [*asked, *said, {"role": "user", "content": more}]


def read_spoken(answer: Any) -> str:
    """The content of an answer. The ids of its tokens depend on which of two equal calls came first."""
    items = [
        {name: item.get(name) for name in ("type", "name", "arguments", "content")}
        for item in answer["output"]
    ]
    return json.dumps(items)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_subagents_side_by_side_are_replayed_in_any_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    """Two of three say the same at first."""
    server = Server(tmp_path, MockEngine(EngineOptions(model="mock", policy="tools")))
    texts = ("look here", "look here", "look there")
    begun = [[{"role": "user", "content": text}] for text in texts]
    firsts = [server.call(FIRST, body={"input": each, "tools": TOOLS}).json() for each in begun]
    later = [go_on(firsts[at], begun[at], f"more {at}") for at in range(3)]
    seconds = [server.call(FIRST, body={"input": each, "tools": TOOLS}).json() for each in later]
    asked = server.asked
    server.plan(SECOND)
    again = {at: server.call(SECOND, body={"input": begun[at], "tools": TOOLS}).json() for at in order}
    spoken = [read_spoken(answer) for answer in firsts]
    assert sorted(read_spoken(again[at]) for at in (0, 1)) == sorted(spoken[:2])
    assert read_spoken(again[2]) == spoken[2]
    for at in reversed(order):
        answer = server.call(SECOND, body={"input": later[at], "tools": TOOLS})
        assert answer.status_code == 200, answer.text
        assert read_spoken(answer.json()) == read_spoken(seconds[at])
    assert server.asked == asked
