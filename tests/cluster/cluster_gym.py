"""A gym on several machines, started and used as a user does, with the faults of machines and networks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.cluster.namespaces import Machines
from tests.e2e.gym_run import read_lines, rollout_of, terminal

ENVIRONMENT = "example_session_state_mgmt"
AGENT = f"{ENVIRONMENT}_simple_agent"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml"
)
_ENGINE = "++policy_model.responses_api_models.scripted_model.engine"
SCRIPT = (f"{_ENGINE}.policy=script", f"{_ENGINE}.script=configs/demo/counter_script.yaml")
TASKS = 5
BIN = Path(sys.executable).parent
_ASK = """
import asyncio, json, sys
from nemo_gym.transport import Call, call_once

async def main():
    token, ca, path, *urls = sys.argv[1:]
    replies = [await call_once(url, Call("GET", path, headers={"x-ng-token": token}), timeout_s=30, ca=ca or None)
               for url in urls]
    print(json.dumps([reply.json() for reply in replies]))

asyncio.run(main())
"""
_UPDATE = """
import sys
from nemo_gym.client import Gym

gym = Gym.connect(url=sys.argv[1], token=sys.argv[2])
gym.update_policy(int(sys.argv[3]), reload_weights=True)
"""


def replicas(server: str, kind: str, implementation: str, count: int) -> str:
    """The override for the number of replicas."""
    return f"++{server}.{kind}.{implementation}.placement.replicas={count}"


def run_once(
    machines: Machines, folder: Path, *keys: str, configs: str = CONFIGS
) -> subprocess.CompletedProcess[str]:
    """A run of a few rollouts by the whole command."""
    words = (str(BIN / "ng_e2e_collect_rollouts"), f"+config_paths=[{configs}]", *SCRIPT)
    own = ("+output_jsonl_fpath=out.jsonl", "++head_server.port=0")
    return subprocess.run(
        machines.command(machines.names[0], *words, *own, *keys),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


class ClusterGym:
    """`ng_run` on several machines. Leaving the `with` block ends it."""

    def __init__(
        self,
        machines: Machines,
        folder: Path,
        *overrides: str,
        configs: str = CONFIGS,
        script: Sequence[str] = SCRIPT,
    ) -> None:
        """`script`: the overrides of the policy in `configs`."""
        self.machines = machines
        self.folder = folder
        self.output = folder / "out" / "rollouts.jsonl"
        self._runtime = folder / "runtime"
        self._runtime.mkdir(mode=0o700, exist_ok=True)
        self._overrides = (f"+config_paths=[{configs}]", *script, "++head_server.port=0", *overrides)
        self.placement = machines.keys()
        """The overrides that place its servers."""
        self.ready_s = 90.0
        """Seconds that its servers have for their start."""
        self.process: subprocess.Popen[bytes] | None = None

    def _start(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as file:
            return subprocess.Popen(
                self.machines.command(self.machines.names[0], *words),
                cwd=self.folder,
                stdout=file,
                stderr=file,
                env={**os.environ, "XDG_RUNTIME_DIR": str(self._runtime)},
            )

    def __enter__(self) -> Self:
        self.begin()
        self.wait_until_ready()
        return self

    def begin(self) -> None:
        """Start the command."""
        self.process = self._start("gym.txt", str(BIN / "ng_run"), *self._overrides, *self.placement)

    def wait_until_ready(self) -> None:
        self.wait_until(
            lambda: self.servers() and all(each["state"] == "ready" for each in self.servers()), self.ready_s
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def log(self) -> str:
        """What the command has printed so far."""
        return (self.folder / "gym.txt").read_text()

    def wait_until(self, condition: Callable[[], object], within_s: float = 90.0) -> None:
        give_up_at = time.monotonic() + within_s
        assert self.process is not None
        while not condition():
            if self.process.poll() is not None or time.monotonic() > give_up_at:
                pytest.fail(f"it did not happen within {within_s:g} s: {self.log[-3000:]}")
            time.sleep(0.02)

    def node_of_only(self, server: str) -> str:
        """Return a node that runs `server`, and neither the agent nor the model."""
        others = {str(each["node"]) for each in self.servers() if each["name"] != server}
        nodes = (str(each["node"]) for each in self.servers() if each["name"] == server)
        return next(node for node in nodes if node not in others)

    def _record(self) -> dict[str, Any]:
        found = [json.loads(path.read_text()) for path in self._runtime.rglob("*.json")]
        return found[0] if found else {"servers": []}

    def nodes(self) -> list[dict[str, Any]]:
        """The machines of the gym, as `ng_status` reads them."""
        found: list[dict[str, Any]] = self._record()["nodes"]
        return found

    def servers(self) -> list[dict[str, Any]]:
        """The replicas of the gym, as `ng_status` reads them; without the head server."""
        return [each for each in self._record()["servers"] if each["name"] != "head_server"]

    def ask(self, path: str) -> list[Any]:
        """The JSON that every replica answers to `GET path`."""
        run = self._record()["run"]
        words = [sys.executable, "-c", _ASK, run["token"], run["ca"] or "", path]
        urls = [server["url"] for server in self.servers()]
        command = self.machines.command(self.machines.names[0], *words, *urls)
        answers: list[Any] = json.loads(
            subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        )
        return answers

    def update_policy(self, version: int) -> None:
        """Reload the weights of all engines, and change the version, as a trainer does."""
        run = self._record()["run"]
        words = (sys.executable, "-c", _UPDATE, run["head"], run["token"], str(version))
        command = self.machines.command(self.machines.names[0], *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr

    def directory(self) -> dict[str, Any]:
        """The current addresses and generations, as the head server answers them."""
        record = self._record()
        found: dict[str, Any] = json.loads((Path(record["run"]["logs"]) / "directory.json").read_text())
        return found

    def scale(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `gym env scale` with `NAME=REPLICAS` and options."""
        return self._start("scale.txt", str(BIN / "gym"), "env", "scale", *words)

    def collect(
        self,
        repeats: int,
        *keys: str,
        agent: str = AGENT,
        tasks: str | Path = f"resources_servers/{ENVIRONMENT}/data/example.jsonl",
    ) -> subprocess.Popen[bytes]:
        """Start `ng_collect_rollouts`, by default on the five tasks of the environment."""
        return self._start(
            "collect.txt",
            str(BIN / "ng_collect_rollouts"),
            f"+agent_name={agent}",
            f"+input_jsonl_fpath={tasks}",
            f"+output_jsonl_fpath={self.output}",
            f"+num_repeats={repeats}",
            *keys,
        )

    def rows(self) -> list[dict[str, Any]]:
        return read_lines(self.output)

    def count_rows(self) -> int:
        """The number of rows so far. They are not parsed, so that a test can ask often."""
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0

    def check_books(self, planned: int) -> str:
        """Check that every planned rollout has ended once, and every session. Returns the counts as text."""
        causes = Counter(failure["_ng_failure_class"] for failure in self.failures())
        scored = Counter(map(rollout_of, self.rows()))
        failed = Counter(map(rollout_of, terminal(self.failures())))
        assert max((scored + failed).values()) == 1, "a rollout ends once"
        assert len(scored + failed) == planned, "every planned rollout ends"
        assert all("reward" not in failure for failure in self.failures())
        self.wait_until(lambda: all(each["state"] == "ready" for each in self.servers()))
        self.wait_until(lambda: all(each["sessions_open"] == 0 for each in self.ask("/_ng/stats")))
        return f"{len(scored)} scored, {len(failed)} failed, attempts that failed: {dict(causes)}"

    def failures(self) -> list[dict[str, Any]]:
        return read_lines(self.output.with_name("rollouts_failures.jsonl"))
