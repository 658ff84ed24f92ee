"""A gym for measurements, started with `ng_run` in its own folder, as users start it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import psutil

from perf.measure import family_of

RUN = "from nemo_gym.cli.run import main; main()"  # what the command `ng_run` does


@dataclass(slots=True)
class RunningGym:
    process: subprocess.Popen[str]
    folder: str
    urls: dict[str, list[str]] = field(default_factory=dict)
    """Server name → base URLs."""
    pids: dict[str, int] = field(default_factory=dict)
    """Server name → its process."""

    def processes(self) -> list[psutil.Process]:
        return family_of(self.process.pid)

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "server" and event["pid"] is not None:
                self.pids[event["server"]] = event["pid"]
            if event["event"] == "ready":
                self.urls = event["servers"]
                return
        raise RuntimeError(f"ng_run ended with exit code {self.process.wait()} before its servers were ready")


@contextmanager
def running_gym(overrides: Sequence[str], folder: str | None = None) -> Iterator[RunningGym]:
    """Run `ng_run` with `overrides` in `folder` or a temporary one. Yield when it is ready; end it with the block."""
    with nullcontext(folder) if folder is not None else tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", RUN, *overrides, "+json=true", "++head_server.port=0"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        gym = RunningGym(process, folder)
        try:
            gym.wait_ready()
            yield gym
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
