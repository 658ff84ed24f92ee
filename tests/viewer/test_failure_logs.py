"""Log lines of a failed server are found by the time of the failure."""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.clock import log_time
from nemo_gym.viewer.failure_logs import lines_around, read_failure_logs

NOON = datetime(2026, 5, 1, 12).timestamp()
"""A time of no meaning."""


def stamped(second: float, text: str) -> str:
    return f"{log_time(NOON + second)} {text}\n"


def stamped_by_an_earlier_version(second: float, text: str) -> str:
    return f"{datetime.fromtimestamp(NOON + second):%Y-%m-%d %H:%M:%S},000 {text}\n"


def failure(at: float | None = NOON, peer: str | None = "policy", hops: Any = None) -> dict[str, Any]:
    return {"_ng_failed_at": at, "_ng_failure": {"peer": peer, "hops": hops}}


def lines_of(row: dict[str, Any], logs: Path) -> list[str]:
    return [line for part in read_failure_logs(row, logs) for line in part["lines"]]


@pytest.fixture(params=[stamped, stamped_by_an_earlier_version], ids=["utc", "local"])
def logs(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    lines = [request.param(second, f"INFO second {second}") for second in range(-3600, 3600, 5)]
    lines[720] += "Traceback (most recent call last):\n  a frame\nValueError: <script>\n"
    (tmp_path / "policy.log").write_text("".join(lines), encoding="utf-8")
    return tmp_path


def test_the_lines_are_those_of_the_minute_before_with_their_tracebacks(logs: Path) -> None:
    (part,) = read_failure_logs(failure(), logs)
    assert part["file"] == "policy.log"
    seconds = [int(found[1]) for line in part["lines"] if (found := re.search(r"second (-?\d+)$", line))]
    assert seconds == list(range(-60, 5, 5))
    assert part["lines"][-1] == "ValueError: <script>"


@pytest.mark.parametrize("at", [NOON - 7200, NOON + 7200])
def test_a_time_outside_of_the_log_has_no_lines(logs: Path, at: float) -> None:
    assert lines_of(failure(at), logs) == []


@pytest.mark.parametrize("text", ["2026-13-45 99:99:99,000 x\n", "no time\n" * 5000])
def test_lines_without_a_time_hide_no_others(tmp_path: Path, text: str) -> None:
    log = text + stamped(-90, "before") + text + stamped(-1, "shown")
    (tmp_path / "policy.log").write_text(log + text + stamped(60, "after"), encoding="utf-8")
    lines = lines_of(failure(), tmp_path)
    assert not any(line.endswith(("before", "after")) for line in lines)
    assert len(text) > 100 or any(line.endswith("shown") for line in lines)
    (tmp_path / "policy.log").write_text(log, encoding="utf-8")
    assert lines_of(failure(), tmp_path)[-1].endswith("shown")


def test_a_failure_without_a_time_or_a_log_has_no_lines(logs: Path) -> None:
    (logs / "empty.log").touch()
    for row in (
        failure(None),
        failure(peer="other"),
        failure(peer="empty"),
        failure(peer=None),
        {},
        {"_ng_failed_at": NOON},
    ):
        assert lines_of(row, logs) == []
    assert read_failure_logs(failure(), None) == []
    assert lines_of(failure(peer="../policy"), logs / "missing") == []


def test_clocks_that_are_set_back_hide_no_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_past_two = 1_792_888_200.0  # in Berlin, where it is half past two again an hour later
    lines = [f"{log_time(half_past_two + second)} INFO {second}\n" for second in range(0, 7200, 60)]
    (tmp_path / "policy.log").write_text("".join(lines), encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        found = lines_of(failure(half_past_two + 3600), tmp_path)
    time.tzset()
    assert [line.split()[-1] for line in found] == ["3540", "3600"]


def test_without_a_time_the_lines_are_the_last(logs: Path) -> None:
    found = list(lines_around(logs / "policy.log", None))
    assert (len(found), found[-1][-4:]) == (20, "3595")


def test_a_failed_engine_has_the_log_of_the_server_that_called_it(logs: Path) -> None:
    assert lines_of(failure(peer="http://127.0.0.1:8000/v1", hops=["policy"]), logs)


def test_servers_in_one_process_share_a_log(tmp_path: Path) -> None:
    (tmp_path / "inline.log").write_text(stamped(0, "shared"), encoding="utf-8")
    assert len(lines_of(failure(), tmp_path)) == 1


def test_every_replica_has_its_lines(tmp_path: Path) -> None:
    for replica in range(2):
        (tmp_path / f"policy.{replica}.log").write_text(stamped(0, f"from {replica}"), encoding="utf-8")
    assert [part["file"] for part in read_failure_logs(failure(), tmp_path)] == [
        "policy.0.log",
        "policy.1.log",
    ]


def test_long_and_many_lines_are_bounded(tmp_path: Path) -> None:
    text = "".join(stamped(0, f"{number} {'x' * 10_000}") for number in range(100))
    (tmp_path / "policy.log").write_text(text, encoding="utf-8")
    lines = lines_of(failure(), tmp_path)
    assert 0 < len(lines) <= 20
    assert max(map(len, lines)) <= 501
