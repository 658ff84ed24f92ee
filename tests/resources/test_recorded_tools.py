"""Tools whose results are recorded, and snapshots of sessions: in attempts of a gym in this process that go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient
from pydantic import Field

from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.rows.keys import REPLAY_KEY
from nemo_gym.rows.models import BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.serving.durability import CAPTURE_DIR_KEY
from nemo_gym.serving.durable.names import AttemptName
from nemo_gym.serving.durable.plans import ReplayMode, ReplayPlan
from nemo_gym.serving.durable.tool_lines import describe_given, read_tool_lines
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.transport.context import SESSION_HEADER
from nemo_gym.transport.control import DURABLE_RUNS
from tests.engines.attempts.durable_gym import (
    ENVIRONMENTS,
    count_calls,
    cut_record,
    durable_gym,
    find_latest,
    plan_examples,
    read_files,
)

RUN = "d0123456789ab"
COUNTER = "example_session_state_mgmt"


async def test_an_attempt_that_goes_on_gets_the_recorded_results_and_executes_no_tool(tmp_path: Path) -> None:
    recorded = f"++{COUNTER}.resources_servers.{COUNTER}.replay=recorded"
    async with durable_gym(tmp_path, [COUNTER], recorded) as gym:
        task = plan_examples(ENVIRONMENTS[COUNTER])[0]
        whole = await gym.run(task)
        files, calls = read_files(find_latest(gym, task)), count_calls(whole)
        assert whole["reward"] == 1.0
        gym.leave_record(task.identity, cut_record(files, calls, in_flight=False))
        row = await gym.run(task)
        about: dict[str, Any] = row[REPLAY_KEY]
        assert about["calls_replayed"] == calls, "every result is the recorded one"
        assert about["tools_recorded"] == calls - 1
        assert "from_snapshot" not in about
        assert row["final_count"] == task_count(whole), "no tool has moved the counter"


def task_count(row: dict[str, Any]) -> int:
    count: int = row["initial_count"]
    return count


class Dice(SimpleResourcesServer):
    """Counts the calls of each session. Its state is the count."""

    counts: dict[str, int] = Field(default_factory=dict)
    is_kept: bool = True

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/roll")(self.roll)
        app.post("/raw")(self.raw)
        app.post("/broken")(self.broken)
        return app

    async def seed_session(self, request: Request) -> dict[str, Any]:  # type: ignore[override]
        session = request.session[SESSION_ID_KEY]
        kept = self.find_snapshot(session)
        self.counts[session] = int(kept.read_text()) if kept is not None else 0
        return {}

    async def snapshot_session(self, session: str, path: Path) -> bool:
        if self.is_kept:
            path.write_text(str(self.counts[session]))  # noqa: ASYNC240 - a byte
        return self.is_kept

    async def roll(self, request: Request) -> dict[str, int]:
        self.counts[request.session[SESSION_ID_KEY]] += 1
        return {"count": self.counts[request.session[SESSION_ID_KEY]]}

    async def raw(self) -> Response:
        return Response(b"\xff\x00", 201, media_type="image/png")

    async def broken(self) -> Response:
        return Response(b"busy", 503)

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**dict(body), reward=0.0)


class Attempt:
    """An attempt of a durable run at one server."""

    def __init__(self, client: TestClient, folder: Path, number: int) -> None:
        self.name = AttemptName(RUN, 0, 0, number)
        self.folder = folder / self.name.folder
        self._client = client

    def post(self, path: str, body: Any = None) -> Any:
        return self._client.post(path, json=body or {}, headers=self._headers)

    @property
    def _headers(self) -> dict[str, str]:
        return {SESSION_HEADER: str(self.name)}

    def roll(self, **arguments: Any) -> int:
        count: int = self.post("/roll", arguments).json()["count"]
        return count

    def replay(self, source: Attempt, until: float | None = None) -> None:
        ReplayPlan(mode=ReplayMode.CONTINUE, source=source.folder, tools_until=until).write(self.folder)


def start_dice(folder: Path, replay: str, **options: Any) -> tuple[Dice, TestClient]:
    server = Dice.standalone(name="dice", replay=replay, **options)
    assert isinstance(server, Dice)
    server.server_client.global_config_dict = {CAPTURE_DIR_KEY: str(folder / "model_calls")}
    return server, TestClient(server.finish_app(), base_url="http://127.0.0.1")


class Server:
    """A server that was told of the run."""

    def __init__(self, folder: Path, replay: str, **options: Any) -> None:
        self.server, self.client = start_dice(folder, replay, **options)
        self.records = folder / "out_attempts"
        self.records.mkdir(exist_ok=True)
        told = self.client.post(DURABLE_RUNS, json={"run": RUN, "folder": str(self.records)})
        assert told.status_code == (200 if replay in ("recorded", "snapshot") else 404)

    def begin(self, number: int, source: Attempt | None = None, until: float | None = None) -> Attempt:
        attempt = Attempt(self.client, self.records, number)
        if source is not None:
            attempt.replay(source, until)
        assert attempt.post("/seed_session").status_code == 200
        return attempt


def test_equal_calls_get_their_results_in_recorded_order_and_new_ones_are_executed(tmp_path: Path) -> None:
    server = Server(tmp_path, "recorded")
    first = server.begin(0)
    assert [first.roll(sides=6), first.roll(sides=6), first.roll(sides=8)] == [1, 2, 3]
    again = server.begin(1, first)
    assert again.roll(sides=8) == 3
    assert [again.roll(sides=6), again.roll(sides=6)] == [1, 2]
    assert again.roll(sides=6) == 1, "the record has no more: the tool is executed"
    assert describe_given(again.folder) == {"tools_recorded": 3}
    assert describe_given(first.folder) == {}


def test_arguments_are_compared_as_json_and_integers_of_any_size_exactly(tmp_path: Path) -> None:
    server = Server(tmp_path, "recorded")
    first = server.begin(0)
    assert [first.roll(a=1, b=1 << 70), first.roll(a=1, b=(1 << 70) + 1)] == [1, 2]
    again = server.begin(1, first)
    assert [again.roll(b=(1 << 70) + 1, a=1), again.roll(b=1 << 70, a=1)] == [2, 1]
    assert describe_given(again.folder) == {"tools_recorded": 2}


def test_status_type_and_bytes_of_a_result_are_given_again(tmp_path: Path) -> None:
    server = Server(tmp_path, "recorded")
    first = server.begin(0)
    first.post("/raw")
    given = server.begin(1, first).post("/raw")
    assert (given.status_code, given.headers["content-type"], given.content) == (
        201,
        "image/png",
        b"\xff\x00",
    )


def test_a_server_that_was_busy_gave_no_result(tmp_path: Path) -> None:
    server = Server(tmp_path, "recorded")
    first = server.begin(0)
    assert first.post("/broken").status_code == 503
    assert read_tool_lines(first.folder) == []


def test_a_fork_gets_the_results_up_to_its_turn(tmp_path: Path) -> None:
    server = Server(tmp_path, "recorded")
    first = server.begin(0)
    first.roll()
    first.roll()
    until = read_tool_lines(first.folder)[0]["ended_at"]
    fork = server.begin(1, first, until)
    assert [fork.roll(), fork.roll()] == [1, 1]
    assert describe_given(fork.folder) == {"tools_recorded": 1}


def test_results_that_were_given_are_in_the_record_of_the_next_attempt(tmp_path: Path) -> None:
    server = Server(tmp_path, "recorded")
    first = server.begin(0)
    first.roll()
    second = server.begin(1, first)
    second.roll()
    second.roll()
    third = server.begin(2, second)
    assert [third.roll(), third.roll()] == [1, 1]
    assert describe_given(third.folder) == {"tools_recorded": 2}


def test_a_process_that_begins_later_knows_the_run(tmp_path: Path) -> None:
    server = Server(tmp_path, "recorded")
    first = server.begin(0)
    first.roll()
    first.roll(sides=8)
    again = Attempt(start_dice(tmp_path, "recorded")[1], server.records, 1)
    again.replay(first)
    again.post("/seed_session")
    assert again.roll(sides=8) == 2
    assert describe_given(again.folder) == {"tools_recorded": 1}


def test_a_record_that_cannot_be_written_stops_no_tool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path, "recorded")
    (server.records / "0.0.a0").touch()
    first = server.begin(0)
    assert [first.roll(), first.roll()] == [1, 2]
    assert caplog.text.count("recorded no more") == 1


@pytest.mark.parametrize("replay", ["safe", "unsafe"])
def test_other_servers_record_nothing(tmp_path: Path, replay: str) -> None:
    first = Server(tmp_path, replay).begin(0)
    first.roll()
    assert not first.folder.exists()


def test_a_session_begins_with_its_last_snapshot_and_executes_the_calls_after_it(tmp_path: Path) -> None:
    server = Server(tmp_path, "snapshot", snapshot_after_s=0)
    first = server.begin(0)
    first.roll()
    first.roll()
    server.server.is_kept = False
    first.roll()
    again = server.begin(1, first)
    assert [again.roll(), again.roll(), again.roll()] == [1, 2, 3]
    assert server.server.counts[str(again.name)] == 3
    assert describe_given(again.folder) == {"tools_recorded": 2, "from_snapshot": True}
    third = server.begin(2, again)
    assert [third.roll() for _ in range(4)] == [1, 2, 3, 4], "a snapshot is handed on"
    assert describe_given(third.folder)["tools_recorded"] == 2


def test_a_fork_begins_with_the_last_snapshot_before_its_turn(tmp_path: Path) -> None:
    server = Server(tmp_path, "snapshot", snapshot_after_s=0)
    first = server.begin(0)
    for _ in range(3):
        first.roll()
    until = read_tool_lines(first.folder)[1]["ended_at"]
    fork = server.begin(1, first, until)
    assert [fork.roll() for _ in range(3)] == [1, 2, 3]
    assert describe_given(fork.folder) == {"tools_recorded": 2, "from_snapshot": True}


@pytest.mark.parametrize("lost", ["never_kept", "deleted", "soon"])
def test_without_a_snapshot_every_tool_is_executed_again(tmp_path: Path, lost: str) -> None:
    server = Server(tmp_path, "snapshot", snapshot_after_s=600 if lost == "soon" else 0)
    server.server.is_kept = lost != "never_kept"
    first = server.begin(0)
    first.roll()
    first.roll()
    for path in first.folder.glob("*.snapshot"):
        assert lost == "deleted"
        path.unlink()
    again = server.begin(1, first)
    assert [again.roll(), again.roll()] == [1, 2]
    assert server.server.counts[str(again.name)] == 2
    assert describe_given(again.folder) == {}
