"""A hundred replicas of an environment on four machines, with thousands of sessions in flight, are scaled.

Every row names the replica that verified it, its session, and the moment at which the session was opened. So the rows
prove that no session saw another replica, and that only the share moved that rendezvous hashing gives away.
NEMO_GYM_TEST_REPLICAS and NEMO_GYM_TEST_SESSIONS are the numbers of replicas and of sessions in flight.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym.launch.nodes.scaling import LEARNT_WITHIN_S
from nemo_gym.transport.directory import choose_home
from tests.cluster.cluster_gym import TASKS, ClusterGym, replicas
from tests.cluster.namespaces import machines, why_not
from tests.e2e.gym_run import rollout_of

REPLICAS = int(os.environ.get("NEMO_GYM_TEST_REPLICAS", "100"))
SESSIONS = int(os.environ.get("NEMO_GYM_TEST_SESSIONS", "4096"))
MORE, FEWER = REPLICAS * 5 // 4, REPLICAS * 9 // 10
REPEATS = 3 * SESSIONS // TASKS
LONGEST_S = 1200.0
"""Seconds for all rollouts, on a machine that is busy with other work."""
TURN_S = max(4.0, SESSIONS / 200)
"""Seconds of a model call, so long that all sessions are opened before the first has ended."""
NAMING = """
import os, time
from fastapi import Request
from nemo_gym.config.bootstrap import current
from nemo_gym.server_utils import SESSION_ID_KEY
from resources_servers.example_session_state_mgmt.app import (
    CounterSeedRequest, CounterVerifyRequest, CounterVerifyResponse, ExampleSessionStateMgmtResourcesServer
)

class Answer(CounterVerifyResponse):
    session: str
    replica: int
    opened_at: float
    opened_by: int
    verified_by: int

class Naming(ExampleSessionStateMgmtResourcesServer):
    opened: dict[str, tuple[float, int]] = {}

    async def seed_session(self, request: Request, body: CounterSeedRequest):
        self.opened.setdefault(request.session[SESSION_ID_KEY], (time.time(), os.getpid()))
        return await super().seed_session(request, body)

    async def verify(self, request: Request, body: CounterVerifyRequest) -> Answer:
        answer, session = await super().verify(request, body), request.session[SESSION_ID_KEY]
        at, by = self.opened[session]
        about = {"replica": current().replica, "session": session, "opened_at": at, "opened_by": by}
        return Answer(**dict(answer), **about, verified_by=os.getpid())

if __name__ == "__main__":
    Naming.run_webserver()
"""
AGENT = "naming_agent"
REFUSALS = {
    "naming=0": "naming: 0 replicas",
    "namin=2": "Did you mean 'naming'?",
    "head_server=2": "head_server always has one process",
    "naming=many": "is not NAME=REPLICAS",
}
"""Wrong lines of `gym env scale`, and a part of the message."""

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def write_environment(folder: Path) -> str:
    """Write the environment and its agent, and return the configuration's path."""
    server = folder / "resources_servers" / "naming"
    server.mkdir(parents=True)
    (server / "app.py").write_text(NAMING)
    agent = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": "naming"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "max_steps": 20,
        "placement": {"replicas": 4},
    }
    placement = {"replicas": REPLICAS}
    blocks = {
        "naming": {"resources_servers": {"naming": {"entrypoint": "app.py", "placement": placement}}},
        AGENT: {"responses_api_agents": {"simple_agent": agent}},
    }
    (folder / "gym.yaml").write_text(yaml.safe_dump(blocks))
    return "gym.yaml,responses_api_models/scripted_model/configs/scripted_model.yaml"


class Scaled:
    """A change of the number of replicas while sessions are in flight."""

    def __init__(self, gym: ClusterGym, before: int, after: int) -> None:
        self.before, self.after = before, after
        self.began = time.time()
        version = gym.directory()["version"]
        self._process = gym.scale(f"naming={after}", "--drain-timeout", str(int(LONGEST_S)))
        gym.wait_until(lambda: gym.directory()["version"] > version, within_s=LONGEST_S)
        self.published = time.time()
        """The moment after which replicas that leave get no new session from a caller that has learnt it."""

    def wait(self) -> None:
        assert self._process.wait(LONGEST_S) == 0
        self.ended = time.time()


def sessions_open(gym: ClusterGym) -> int:
    """The sessions of the environment that are open now."""
    time.sleep(1.0)  # a hundred replicas are asked
    return sum(
        stats["sessions_open"]
        for server, stats in zip(gym.servers(), gym.ask("/_ng/stats"), strict=True)
        if server["name"] == "naming"
    )


def check_rows(rows: list[dict[str, Any]]) -> None:
    """Each rollout was scored once, by the replica that opened its session, with the state of this session."""
    assert len(Counter(map(rollout_of, rows))) == len(rows) == REPEATS * TASKS
    assert all(row["opened_by"] == row["verified_by"] for row in rows)
    for task in range(TASKS):
        counts = {row["final_count"] for row in rows if rollout_of(row).task == task}
        assert len(counts) == 1, f"the sessions of task {task} have one count: {counts}"


def check_homes(rows: list[dict[str, Any]], more: Scaled, fewer: Scaled) -> None:
    """The replicas of the sessions that were opened before, between and after the changes."""
    by_count = {
        REPLICAS: [row for row in rows if row["opened_at"] < more.began],
        MORE: [row for row in rows if more.ended + LEARNT_WITHIN_S < row["opened_at"] < fewer.began],
        FEWER: [row for row in rows if fewer.published + LEARNT_WITHIN_S < row["opened_at"]],
    }
    for count, opened in by_count.items():
        assert opened, f"sessions were opened with {count} replicas"
        assert [row["replica"] for row in opened] == [choose_home(row["session"], count) for row in opened]
    shares = {count: len(opened) for count, opened in by_count.items()}
    sys.stdout.write(f"sessions opened with each number of replicas: {shares}\n")
    for count in (MORE, FEWER):
        moved = [row for row in by_count[count] if row["replica"] != choose_home(row["session"], REPLICAS)]
        share = len(moved) / max(1, len(by_count[count]))
        expected = abs(count - REPLICAS) / max(count, REPLICAS)
        sys.stdout.write(
            f"{REPLICAS} → {count} replicas: {share:.3f} of the sessions moved, {expected:.3f} by hash\n"
        )


def test_replicas_are_added_and_removed_under_thousands_of_sessions(tmp_path: Path) -> None:
    servers = (
        replicas("policy_model", "responses_api_models", "scripted_model", 4),
        f"++policy_model.responses_api_models.scripted_model.engine.latency_s={TURN_S}",
    )
    with (
        machines(4) as net,
        ClusterGym(net, tmp_path, *servers, configs=write_environment(tmp_path)) as gym,
    ):
        nodes = Counter(each["node"] for each in gym.servers() if each["name"] == "naming")
        assert set(nodes.values()) == {REPLICAS // 4}
        for words, problem in REFUSALS.items():
            assert gym.scale(words).wait(60) == 2
            assert problem in (tmp_path / "scale.txt").read_text()
        collecting = gym.collect(
            REPEATS, f"+num_samples_in_parallel={SESSIONS}", "+rollout_timeout_s=1200", agent=AGENT
        )
        gym.wait_until(lambda: sessions_open(gym) >= SESSIONS, within_s=LONGEST_S)
        more = Scaled(gym, REPLICAS, MORE)
        more.wait()
        gym.wait_until(lambda: gym.count_rows() >= SESSIONS, within_s=LONGEST_S)
        fewer = Scaled(gym, MORE, FEWER)
        assert sessions_open(gym) > 0
        fewer.wait()
        assert "lost" not in (tmp_path / "scale.txt").read_text()
        assert len([each for each in gym.servers() if each["name"] == "naming"]) == FEWER
        assert collecting.wait(LONGEST_S) == 0, (tmp_path / "collect.txt").read_text()[-3000:]
        assert gym.failures() == []
        check_rows(gym.rows())
        check_homes(gym.rows(), more, fewer)


def test_sessions_that_are_lost_are_named_and_attempted_again(tmp_path: Path) -> None:
    rollouts = 40 * TASKS
    servers = (
        "++naming.resources_servers.naming.placement.replicas=8",
        "++policy_model.responses_api_models.scripted_model.engine.latency_s=1",
    )
    with (
        machines(2) as net,
        ClusterGym(net, tmp_path, *servers, configs=write_environment(tmp_path)) as gym,
    ):
        collecting = gym.collect(40, "+num_samples_in_parallel=100", agent=AGENT)
        gym.wait_until(lambda: gym.count_rows() > 0)
        assert gym.scale("naming=4", "--drain-timeout", "0").wait(120) == 0
        printed = (tmp_path / "scale.txt").read_text()
        assert collecting.wait(LONGEST_S) == 0, (tmp_path / "collect.txt").read_text()[-3000:]
        lost = {failure["_ng_failure_class"] for failure in gym.failures()}
        sys.stdout.write(f"{len(gym.failures())} attempts were lost: {lost}. {printed}")
        assert "sessions were lost, whose rollouts are attempted again: " in printed
        assert gym.failures()
        rows = gym.rows()
        assert len(Counter(map(rollout_of, rows))) == len(rows) == rollouts
        assert all(row["opened_by"] == row["verified_by"] for row in rows)
