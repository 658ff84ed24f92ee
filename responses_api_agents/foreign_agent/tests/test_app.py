"""Attempts of environments that call the model themselves: seats, judges, ends, scores and failures."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.record.store import CAPTURE_DIR_KEY
from nemo_gym.sources.foreign.environment import ForeignServer
from nemo_gym.sources.foreign.pool import HostPool
from nemo_gym.testing import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.foreign_agent.app import ForeignAgent
from tests.serving.environments import ScriptedModel, text
from tests.sources.foreign.programs import PLAYING, copy_program, list_processes

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


class PlayingServer(ForeignServer):
    def _find_pool(self) -> HostPool:
        return _build_pool(self, self.config.options)


class PlayingAgent(ForeignAgent):
    """Its hosts run a kind of our own; `options` of the environment name the folder and the environment."""

    def _find_pool(self) -> HostPool:
        return _build_pool(self, self._find_source().options)


def _build_pool(server: Any, options: dict[str, Any]) -> HostPool:
    if server._pool is None:
        program = copy_program(Path(options["folder"]), options["name"], PLAYING, calls_models=True)
        server._pool = HostPool(program, 4)
    pool: HostPool = server._pool
    return pool


class PlayingGym(InProcessGym):
    def __init__(
        self, folder: Path, name: str, says: list[Any], rival: list[Any] | None = None, **options: Any
    ):
        super().__init__()
        self.config[CAPTURE_DIR_KEY] = str(folder / "records")
        models = {"policy_model": says, **({} if rival is None else {"rival": rival})}
        self.models: dict[str, ScriptedModel] = {}
        for model, turns in models.items():
            added = self.add(ScriptedModel, model)
            assert isinstance(added, ScriptedModel)
            added.turns = turns
            self.models[model] = added
        other = {} if rival is None else {"opponent_model_server": refer("responses_api_models", "rival")}
        given = {"source": "textarena:Nim-v0", "options": {"folder": str(folder), "name": name}, **other}
        self.add(PlayingServer, "env", **given, opponent_params={"temperature": 0.5})
        references = {
            "resources_server": refer("resources_servers", "env"),
            "model_server": refer("responses_api_models", "policy_model"),
        }
        self.add(PlayingAgent, "agent", **references, **options)


def refer(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "name": name}


def build_row(**about: Any) -> dict[str, Any]:
    given = {"task": "one", "digest": "d" * 64, "seed": 3, "data": {"turns": 2}, **about}
    return {"responses_create_params": {"input": [], "temperature": 0.25}, "foreign": given}


async def play(
    folder: Path, name: str, *says: str, rival: list[str] | None = None, row: Any = None, **options: Any
) -> tuple[dict[str, Any], PlayingGym]:
    others = None if rival is None else [[text(each)] for each in rival]
    gym = PlayingGym(folder, name, [[text(each)] for each in says], others, **options)
    async with gym.running():
        return await gym.run("agent", row or build_row()), gym


def read_said(row: dict[str, Any]) -> list[str]:
    return [
        item["content"][0]["text"] for item in row["response"]["output"] if item.get("role") == "assistant"
    ]


def count_records(folder: Path) -> tuple[int, int]:
    """Return the number of records that were opened, and of those that were sealed."""
    return len(list(folder.rglob("opened.json"))), len(list(folder.rglob("sealed")))


def read_kind(error: UpstreamError) -> str:
    assert error.failure is not None
    return error.failure.kind


def describe_end(ended: dict[str, Any] | BaseException) -> str:
    if isinstance(ended, UpstreamError):
        return read_kind(ended)
    assert isinstance(ended, dict), ended
    return f"reward {ended['reward']}"


async def test_an_attempt_is_the_calls_of_the_environment(tmp_path: Path) -> None:
    row, gym = await play(tmp_path, "solo", "one", "three")
    assert read_said(row) == ["one", "three"]
    assert (row["reward"], row["reward_components"], row["turns_played"]) == (5.0, {"length": 5.0}, 2)
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("completed", "terminated")
    assert row["info"] == {"seat": "solver", "end": "no turn was left", "native": {"said": "three"}}
    assert row["foreign_agent"] == {"calls": {"solver": 2}, "calls_seen": {"solver": 2}}
    assert [request["temperature"] for request in gym.models["policy_model"].requests] == [0.25, 0.25]
    assert not list(list_processes(tmp_path))


async def test_the_environment_ends_an_attempt_of_too_many_steps(tmp_path: Path) -> None:
    row, _ = await play(tmp_path, "solo", "one", "three", max_steps=1)
    assert (row["reward"], row["_ng_outcome"], row["_ng_end_reason"]) == (3.0, "truncated", "max_steps")


@pytest.mark.parametrize("seat", [0, 1])
async def test_other_seats_have_another_model_and_are_in_no_row(seat: int, tmp_path: Path) -> None:
    row, gym = await play(
        tmp_path, "pair", "mine", "mine too", rival=["theirs", "last"], row=build_row(seat=seat)
    )
    assert read_said(row) == ["mine", "mine too"]
    assert row["reward"] == float(len(["last", "mine too"][seat]))
    assert row["info"]["seat"] == ["first", "second"][seat]
    assert {request["temperature"] for request in gym.models["rival"].requests} == {0.5}


async def test_a_judge_is_no_part_of_the_attempt(tmp_path: Path) -> None:
    row, gym = await play(tmp_path, "judged", "one", "two", rival=["good"])
    assert (row["reward"], read_said(row)) == (1.0, ["one", "two"])
    assert row["foreign_agent"]["calls"] == {"solver": 2, "judge": 1}
    assert len(gym.models["rival"].requests) == 1


async def test_a_judge_without_a_model_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match=r"calls models beside the policy \(judge\)"):
        await play(tmp_path, "judged", "one", "two")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("text", "verifier:bad_reward"),
        ("raise", "environment:environment_error"),
        ("die", "environment:host_died"),
    ],
)
async def test_a_failure_of_the_environment_is_no_reward(said: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(UpstreamError) as caught:
        await play(tmp_path, "solo", "one", said)
    assert read_kind(caught.value) == kind
    assert count_records(tmp_path) == (1, 1)
    assert not list(list_processes(tmp_path))


async def test_a_failure_of_the_model_is_told_before_that_of_the_environment(tmp_path: Path) -> None:
    gym = PlayingGym(tmp_path, "solo", [[text("one")]])  # the model has no second answer
    async with gym.running():
        with pytest.raises(UpstreamError) as caught:
            await gym.run("agent", build_row())
    assert read_kind(caught.value).split(":")[0] == "engine"


async def test_an_environment_that_asks_nothing_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match="before the first turn of seat solver"):
        await play(tmp_path, "solo", row=build_row(data={"turns": 0}))


async def test_a_changed_environment_is_told(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match="has changed since its rows were made"):
        await play(tmp_path, "solo", "one", row=build_row(digest="0" * 64))


async def test_a_host_can_write_neither_sockets_nor_programs(tmp_path: Path) -> None:
    row, _ = await play(tmp_path, "solo", "one", "write")
    assert row["reward"] == 0.0


async def test_attempts_share_a_host_one_after_the_other(tmp_path: Path) -> None:
    gym = PlayingGym(tmp_path, "solo", [[text(each)] for each in ("a", "bb", "c", "dddd")])
    async with gym.running():
        rows = [await gym.run("agent", build_row()) for _ in range(2)]
        agent = gym.servers["agent"]
        assert isinstance(agent, PlayingAgent)
        assert agent._pool is not None
        assert agent._pool.started == 1
    assert [row["reward"] for row in rows] == [2.0, 4.0]


async def test_sixty_four_attempts_at_once_end_as_they_should(tmp_path: Path) -> None:
    said = ["die", "raise", "text", "fine"]
    gym = PlayingGym(tmp_path, "solo", [[text(each)] for each in said * 16])

    async with gym.running():
        attempts = (gym.run("agent", build_row(data={"turns": 1})) for _ in range(64))
        ended = await asyncio.gather(*attempts, return_exceptions=True)
    ends = Counter(map(describe_end, ended))
    kinds = ("environment:host_died", "environment:environment_error", "verifier:bad_reward", "reward 4.0")
    assert ends == dict.fromkeys(kinds, 16)
    assert count_records(tmp_path) == (64, 64)
    assert not list(list_processes(tmp_path))
