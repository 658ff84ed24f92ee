from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from nemo_gym.launch._states import ServerState
from nemo_gym.launch._supervisor import ServerEvent
from nemo_gym.launch.gym import RunningGym
from nemo_gym.launch.reporting import Reporter


def report_a_run(reporter: Reporter) -> None:
    gym: Any = SimpleNamespace(
        servers=[1, 2], log_folder=Path("/logs"), head_url="http://h", addresses={"env": ("http://e",)}
    )

    def happen(state: ServerState, seconds: float, detail: str | None = None, replica: int = 0) -> None:
        reporter.server_changed(ServerEvent("env", replica, "http://e", state, 17, detail), seconds)

    happen(ServerState.STARTING, 1)
    reporter.still_waiting(["env"], 10)
    happen(ServerState.READY, 11.26)
    reporter.gym_ready(cast(RunningGym, gym), 11.3)
    happen(ServerState.CRASHED, 20, "exit code 7")
    happen(ServerState.READY, 21)
    happen(ServerState.READY, 22, replica=1)
    reporter.announce("a note")
    reporter.gym_stopped(0.44)


def test_lines_report_the_main_events_in_order() -> None:
    stream = io.StringIO()
    report_a_run(Reporter(lambda: stream))
    assert stream.getvalue().splitlines() == [
        "still starting after 10 s: env",
        "ready in 11.3 s: env http://e",
        "all 2 servers are ready in 11.3 s; logs: /logs",
        "died: env (exit code 7)",
        "ready again after 21.0 s: env http://e",
        "ready in 22.0 s: env #1 http://e",
        "a note",
        "stopped in 0.4 s",
    ]


def test_json_reports_every_event() -> None:
    stream = io.StringIO()
    report_a_run(Reporter(lambda: stream, as_json=True))
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in events] == [
        *("server", "waiting", "server", "ready", "server", "server", "server", "note", "stopped")
    ]
    assert events[0] == {
        "event": "server",
        "server": "env",
        "replica": 0,
        "url": "http://e",
        "state": "starting",
        "pid": 17,
        "detail": None,
        "seconds": 1,
    }
    assert events[3]["servers"] == {"env": ["http://e"]}
    assert events[4]["detail"] == "exit code 7"
