"""`ng_e2e_collect_rollouts` in its own folder, started as a user does, with access to its state and processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest
import yaml

from nemo_gym.rows.keys import TERMINAL_KEY

Row = dict[str, Any]


class Rollout(NamedTuple):
    """Return the rollout of a row."""

    task: int
    repeat: int


class GymRun:
    """One start of the command. Leaving the `with` block ends it."""

    def __init__(self, folder: Path, *overrides: str, secrets: Mapping[str, Any] | None = None) -> None:
        """`overrides` go on the command line, `secrets` into `env.yaml`."""
        self.folder = folder
        self.output = folder / "out" / "rollouts.jsonl"
        self._overrides = overrides
        self._process: subprocess.Popen[str] | None = None
        self._runtime = folder / "runtime"
        self._runtime.mkdir(mode=0o700, exist_ok=True)
        if secrets is not None:
            (folder / "env.yaml").write_text(yaml.safe_dump(dict(secrets)))

    def start(self) -> None:
        command = [str(Path(sys.executable).parent / "ng_e2e_collect_rollouts"), *self._overrides]
        command += [
            "++head_server.port=0",
            "+json=true",
            f"+output_jsonl_fpath={self.output.relative_to(self.folder)}",
        ]
        with (self.folder / "stderr.txt").open("a") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "XDG_RUNTIME_DIR": str(self._runtime)},
            )

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    @property
    def errors(self) -> str:
        """Return the command's stderr so far."""
        return (self.folder / "stderr.txt").read_text()

    def finish(self, within_s: float) -> tuple[int, dict[str, Any]]:
        """The exit code and the summary."""
        printed, _ = self.process.communicate(timeout=within_s)
        return self.process.returncode, json.loads(printed) if printed.strip() else {}

    def rows(self) -> list[Row]:
        return read_lines(self.output)

    def failures(self) -> list[Row]:
        return read_lines(self.output.with_name("rollouts_failures.jsonl"))

    def settled(self) -> int:
        """Rollouts that have their row or have failed for good."""
        return len(self.rows()) + len(terminal(self.failures()))

    def wait_for(self, count: int, within_s: float = 60.0) -> None:
        """Wait until `count` rollouts are settled."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.settled() >= count:
                return
            time.sleep(0.02)
        pytest.fail(f"{count} rollouts were not settled: {self.settled()} are; {self.errors[-3000:]}")

    def servers(self) -> dict[str, dict[str, Any]]:
        """The servers by name, as `ng_status` sees them: pid, url, log."""
        records = list(self._runtime.rglob("*.json"))
        return {entry["name"]: entry for path in records for entry in json.loads(path.read_text())["servers"]}

    def wait_for_servers(self, within_s: float = 30.0) -> dict[str, dict[str, Any]]:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and self.process.poll() is None:
            servers = self.servers()
            if servers and all(server["state"] == "ready" for server in servers.values()):
                return servers
            time.sleep(0.02)
        pytest.fail(f"the servers did not start: {self.errors[-3000:]}")

    def kill(self, server: str) -> None:
        os.kill(int(self.servers()[server]["pid"]), signal.SIGKILL)

    def ask(self, server: str, path: str) -> Any:
        """The JSON that a server answers to `GET path`."""
        with urllib.request.urlopen(self.servers()[server]["url"] + path, timeout=30) as answer:
            return json.loads(answer.read())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()


def read_lines(path: Path) -> list[Row]:
    """The whole rows of a file that may still be written."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def terminal(failures: Iterable[Row]) -> list[Row]:
    return [failure for failure in failures if failure[TERMINAL_KEY]]


def rollout_of(row: Row) -> Rollout:
    return Rollout(row["_ng_task_index"], row["_ng_rollout_index"])


def check_books(run: GymRun, tasks: int, repeats: int) -> set[Rollout]:
    """That each rollout has either one row or one final failure, and no failure a reward; those that have failed."""
    scored = Counter(map(rollout_of, run.rows()))
    lost = Counter(map(rollout_of, terminal(run.failures())))
    assert not scored or max(scored.values()) == 1
    assert not lost or max(lost.values()) == 1
    assert not scored.keys() & lost.keys()
    planned = {Rollout(task, repeat) for task in range(tasks) for repeat in range(repeats)}
    assert scored.keys() | lost.keys() == planned
    assert all("reward" not in failure for failure in run.failures())
    return set(lost)
