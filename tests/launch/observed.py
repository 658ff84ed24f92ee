"""Records of servers to observe."""

from __future__ import annotations

import os

from nemo_gym.launch.records import RunRecord, ServerRecord

RUN = RunRecord(os.getpid(), "token", "2026-01-01T00:00:00+00:00", "http://127.0.0.1:1")


def a_server(url: str, state: str = "ready") -> ServerRecord:
    return ServerRecord("env", "resources_servers", "env", 0, url, state, os.getpid(), 0, "env.log")
