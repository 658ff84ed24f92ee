"""One attempt at a task folder, as the format defines it.

    start → health check → (step: files, setup, health check) → agent → collect hooks → artifacts → verifier → rewards

The agent itself is another server: it runs commands in the sandbox by `run_command`, or connects to it. A step follows
another in the same sandbox. A separate verifier gets a fresh sandbox with the artifacts alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from nemo_gym import clock
from nemo_gym.failures import GymError, VerifierError
from nemo_gym.isolation.leftovers import remove_tree
from nemo_gym.sandbox import SandboxExecResult
from nemo_gym.sandbox.providers.protocols import SupportsSandboxSnapshots
from nemo_gym.sources.task_folders import verifier_shim
from nemo_gym.sources.task_folders.folder import VERIFIER_PROGRAM, FolderTask, read_text
from nemo_gym.sources.task_folders.rewards import (
    JSON_FILE,
    TEXT_FILE,
    Rewards,
    combine_rewards,
    find_shortfall,
    parse_rewards,
)
from nemo_gym.sources.task_folders.sandboxes import Sandboxes, TrialSandbox
from nemo_gym.sources.task_folders.settings import (
    AgentSettings,
    Artifact,
    HealthCheckSettings,
    StepSettings,
    VerifierMode,
    list_artifacts,
)
from nemo_gym.sources.task_folders.values import fill_variables

log = logging.getLogger(__name__)

_LOGS = ("/logs/agent", "/logs/verifier", "/logs/artifacts")
_TESTS, _SOLUTION = "/tests", "/solution"
_STDOUT: Final = "/logs/verifier/test-stdout.txt"
_SHIM: Final = Path(verifier_shim.__file__).read_text(encoding="utf-8")
_SETUP_S = 3600.0


@dataclass(slots=True)
class StepVerdict:
    """The end of a step, or of a task without steps."""

    step: str | None
    rewards: Rewards | None
    """None if there is no verdict."""
    failure: GymError | None = None
    artifacts: dict[str, str] = field(default_factory=dict)
    """Source → `ok`, `failed` or `skipped`."""


def _keep(folder: Path, target: Path, found: Mapping[str, str]) -> None:
    """Copy the artifacts of a step, with a list of their sources."""
    shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)
    (target / "manifest.json").write_text(json.dumps(found, indent=2), encoding="utf-8")


@dataclass(slots=True)
class Trial:
    """An attempt that was started. `close` ends it in every case."""

    task: FolderTask
    sandboxes: Sandboxes
    variables: frozenset[str] = frozenset()
    """The variables of this machine that the task may read."""
    verdicts: list[StepVerdict] = field(default_factory=list)
    artifacts: Path | None = None
    """A folder of this machine that keeps the artifacts, those of a step in a folder of its name."""
    response: Mapping[str, Any] = field(default_factory=dict)
    """The answer of the agent, which a `verifier.py` may read."""
    has_two_reward_files: bool = False
    """True once a verifier has written both; the JSON counts."""
    _sandbox: TrialSandbox | None = None
    _kept: Path | None = None
    _needs_reset: bool = False
    _began: float = 0.0

    @property
    def sandbox(self) -> TrialSandbox:
        assert self._sandbox is not None, "the trial was not started"
        return self._sandbox

    @property
    def step(self) -> StepSettings | None:
        """The step that is played; None for a task without steps."""
        steps = self.task.steps
        return steps[min(len(self.verdicts), len(steps) - 1)]

    @property
    def agent(self) -> AgentSettings:
        """The settings of the agent in this step."""
        return self.task.settings.find_agent(self.step)

    def left_s(self) -> float | None:
        """The seconds that the agent has left in this step; None for no limit."""
        limit = self.agent.timeout_sec
        return None if limit is None else limit - (clock.monotonic() - self._began)

    async def start(self, snapshot: Path | None = None) -> None:
        """Start the sandbox and prepare the first step. Raises VerifierError.

        `snapshot`: that of an earlier attempt, which goes on in this one.
        """
        environment = self.task.settings.environment
        self._kept = Path(tempfile.mkdtemp(prefix="nemo_gym_trial_"))
        env = self._fill(environment.env)
        self._sandbox = await self.sandboxes.start(environment, self.task.environment, env, snapshot)
        if snapshot is None:
            await self.sandbox.make_empty(_LOGS)
            if environment.healthcheck is not None:
                await self._check_health(environment.healthcheck)
        await self._prepare_step()

    async def snapshot(self, path: Path) -> bool:
        """Write a snapshot from which another attempt can `start`. Returns False if there can be none now."""
        can = isinstance(self.sandboxes.provider, SupportsSandboxSnapshots)
        has_steps = bool(self.task.settings.steps)  # the verdicts of earlier ones are in no sandbox
        return can and not has_steps and await self.sandbox.sandbox.snapshot(path)

    async def close(self) -> None:
        """End the sandbox and delete what was kept. Idempotent."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.stop()
        kept, self._kept = self._kept, None
        if kept is not None:
            await asyncio.to_thread(remove_tree, kept)

    async def run_command(self, command: str, timeout_s: float) -> SandboxExecResult:
        """Run a command of the agent."""
        return await self.sandbox.exec(command, timeout_s=timeout_s, user=self.agent.user)

    async def play_solution(self) -> SandboxExecResult:
        """Run the task's own solution of this step in the place of an agent. Raises VerifierError if there is none."""
        script = self.task.find_solution(self.step)
        if script is None or self.task.files.excludes(script):
            raise VerifierError(f"{self.task.root} has no solution", code="no_solution")
        await self.sandbox.put_folder(script.parent, self.task.files, _SOLUTION)
        path = f"{_SOLUTION}/{script.name}"
        await self.sandbox.require(f"chmod +x {path}", "Preparing the solution")
        env = {"DEBIAN_FRONTEND": "noninteractive", **self._fill(self.task.settings.solution.env)}
        return await self.sandbox.exec(
            f"({path}) > /logs/agent/oracle.txt 2>&1", timeout_s=self.left_s(), user=self.agent.user, env=env
        )

    async def finish_step(self) -> StepVerdict:
        """Run the hooks, collect the artifacts and verify this step. Its failure is part of the verdict."""
        step = self.step
        verdict = StepVerdict(step.name if step is not None else None, None)
        try:
            await self._run_hooks(step)
            kept = await self._collect(step, verdict)
            verdict.rewards = await self._verify(step, kept)
        except GymError as error:
            if step is None:
                raise
            verdict.failure = error
        self.verdicts.append(verdict)
        return verdict

    async def begin_next_step(self) -> bool:
        """Prepare the next step; return False if there is none, or the last verdict stops the task."""
        last = self.verdicts[-1]
        if len(self.verdicts) >= len(self.task.steps) or (last.failure is not None and last.rewards is None):
            return False
        done = self.task.steps[len(self.verdicts) - 1]
        if done is not None and find_shortfall(last.rewards, done.min_reward) is not None:
            return False
        try:
            await self._prepare_step()
        except GymError as error:
            step = self.step
            self.verdicts.append(StepVerdict(step.name if step else None, None, error))
            return False
        return True

    def combine(self) -> dict[str, float]:
        """Return the rewards of the whole task. Raises the failure of its verifier if it has no verdict."""
        if not self.task.settings.steps:
            return dict(self.verdicts[-1].rewards or {})
        rewards = combine_rewards(
            [verdict.rewards for verdict in self.verdicts], self.task.settings.multi_step_reward_strategy
        )
        if rewards is None:
            failure = next((each.failure for each in reversed(self.verdicts) if each.failure), None)
            raise failure or VerifierError("No step of the task has a verdict.", code="no_verdict")
        return rewards

    async def _prepare_step(self) -> None:
        step = self.step
        self._began = clock.monotonic()
        if step is None:
            return
        await self.sandbox.make_empty(["/logs/agent"])
        if self._needs_reset:
            await self._reset_verifier_folders()
            self._needs_reset = False
        await self._put_workdir(step)
        if step.healthcheck is not None:
            await self._check_health(step.healthcheck)
        self._began = clock.monotonic()

    async def _put_workdir(self, step: StepSettings) -> None:
        folder = self.task.folder(step) / "workdir"
        if not folder.is_dir():
            return
        found = await self.sandbox.exec("pwd", timeout_s=_SETUP_S, user=self.agent.user)
        workdir = (found.stdout or "/").strip()
        await self.sandbox.put_tree(folder, workdir)
        if (folder / "setup.sh").exists():
            script = shlex.quote(f"{workdir.rstrip('/')}/setup.sh")
            done = await self.sandbox.exec(f"bash {script}", timeout_s=_SETUP_S, user=self.agent.user)
            if done.return_code != 0:
                said = f"{done.stderr}".strip()[-500:]
                raise VerifierError(
                    f"setup.sh of step {step.name!r} ended with status {done.return_code}: {said}",
                    code="setup_failed",
                )

    async def _check_health(self, check: HealthCheckSettings) -> None:
        grace_ends, failures = clock.monotonic() + check.start_period_sec, 0
        while True:
            is_grace = clock.monotonic() < grace_ends
            done = await self.sandbox.exec(check.command, timeout_s=check.timeout_sec)
            if done.return_code == 0:
                return
            failures += not is_grace
            if failures >= check.retries and not is_grace:
                raise VerifierError(
                    f"The health check failed {failures} times: {check.command}",
                    code="health_check_failed",
                    retryable=True,
                )
            await asyncio.sleep(check.start_interval_sec if is_grace else check.interval_sec)

    async def _run_hooks(self, step: StepSettings | None) -> None:
        """Run the collect hooks. Their failure never ends a trial."""
        for hook in self.task.settings.find_verifier(step).collect:
            done = await self.sandbox.exec(hook.command, timeout_s=hook.timeout_sec, user=hook.user)
            if done.return_code != 0:
                log.warning(
                    "%s: the collect hook %r ended with %s", self.task.name, hook.command, done.return_code
                )

    async def _collect(self, step: StepSettings | None, verdict: StepVerdict) -> Path:
        """Copy the artifacts to a folder of this machine, and return it."""
        assert self._kept is not None
        folder = Path(tempfile.mkdtemp(dir=self._kept))
        if self.task.settings.find_mode(step) is VerifierMode.SHARED and self.artifacts is None:
            return folder  # nothing reads them
        claimed: list[Artifact] = []
        for artifact in list_artifacts(self.task.settings, step):
            source = artifact.source
            if any(map(artifact.overlaps, claimed)):
                verdict.artifacts[source] = "skipped"
                continue
            claimed.append(artifact)
            try:
                kind = await self.sandbox.get(source, folder / artifact.place, artifact.exclude)
            except (OSError, VerifierError) as error:
                log.warning("%s: the artifact %s was not collected: %s", self.task.name, source, error)
                kind = None
            verdict.artifacts[source] = "failed" if kind is None else "ok"
        if self.artifacts is not None:
            await asyncio.to_thread(_keep, folder, self.artifacts / (verdict.step or ""), verdict.artifacts)
        return folder

    async def _verify(self, step: StepSettings | None, kept: Path) -> Rewards:
        image = self.task.find_verifier_image(step)
        if image is None:
            if step is not None:
                await self._reset_verifier_folders()
                self._needs_reset = True
            return await self._run_verifier(self.sandbox, step, has_tests=False)
        is_last = len(self.verdicts) + 1 >= len(self.task.steps)
        if is_last:
            await self.sandbox.stop()
        env = self._fill(image.settings.env)
        fresh = await self.sandboxes.start(image.settings, image.folder, env)
        try:
            await fresh.make_empty(_LOGS)
            await self._put_artifacts(fresh, step, kept)
            return await self._run_verifier(fresh, step, has_tests=image.has_tests)
        finally:
            await fresh.stop()

    async def _put_artifacts(self, fresh: TrialSandbox, step: StepSettings | None, kept: Path) -> None:
        for artifact in list_artifacts(self.task.settings, step):
            place = kept / artifact.place
            if place.is_dir() and not place.is_symlink():
                await fresh.make_empty([artifact.source])
                await fresh.put_tree(place, artifact.source)
            elif place.is_file():
                target = PurePosixPath(artifact.source)
                await fresh.put([(place, target.name)], str(target.parent))

    async def _run_verifier(
        self, sandbox: TrialSandbox, step: StepSettings | None, *, has_tests: bool
    ) -> Rewards:
        """Run the tests and read the rewards. Raises VerifierError."""
        settings = self.task.settings.find_verifier(step)
        env = self._fill(settings.env)
        await sandbox.require(f"rm -f -- {TEXT_FILE} {JSON_FILE}", "Removing old rewards")
        if not has_tests:
            await self._put_tests(sandbox, step)
        await sandbox.require(f"chmod +x {_TESTS}/test.sh || true", "Preparing the tests")
        done = await sandbox.exec(
            f"({_TESTS}/test.sh) > {_STDOUT} 2>&1",
            timeout_s=settings.timeout_sec,
            user=settings.user,
            env=env,
        )
        if done.error_type == "timeout":
            message = f"The verifier took more than {settings.timeout_sec:g} s."
            raise VerifierError(message, code="verifier_timeout")
        json_file, text_file = await sandbox.read(JSON_FILE), await sandbox.read(TEXT_FILE)
        self.has_two_reward_files |= json_file is not None and text_file is not None
        return parse_rewards(json_file, text_file)

    async def _put_tests(self, sandbox: TrialSandbox, step: StepSettings | None) -> None:
        folders = dict.fromkeys((self.task.tests, self.task.folder(step) / "tests"))
        for folder in folders:
            if folder.is_dir():
                await sandbox.put_folder(folder, self.task.files, _TESTS)
        if self.task.find_test(step) is None:
            shared = self.task.shared_verifier
            if self.task.find_program(step) != shared:
                shared = None
            await self._put_shim(sandbox, shared)

    async def _put_shim(self, sandbox: TrialSandbox, shared: Path | None) -> None:
        """Write the `test.sh` that runs `verifier.py`, what it is given and, if it is `shared`, itself."""
        given = {"task_data": self.task.read_task_data(), "response": self.response}
        program = {} if shared is None else {VERIFIER_PROGRAM: read_text(shared, shared.parent)}
        texts = {
            **program,
            ".ng/run.py": _SHIM,
            ".ng/given.json": json.dumps(given, default=str),
            "test.sh": f"#!/bin/sh\nexec python3 {_TESTS}/.ng/run.py\n",
        }
        with tempfile.TemporaryDirectory() as name:
            for path, text in texts.items():
                (Path(name) / path).parent.mkdir(exist_ok=True)
                (Path(name) / path).write_text(text, encoding="utf-8")
            await sandbox.put_tree(Path(name), _TESTS)

    async def _reset_verifier_folders(self) -> None:
        await self.sandbox.make_empty(["/logs/verifier"])
        await self.sandbox.make_empty([_TESTS], is_open=False)

    def _fill(self, env: Mapping[str, str]) -> dict[str, str]:
        def read(name: str) -> str | None:
            return os.environ.get(name) if name in self.variables else None

        try:
            return fill_variables(env, read)
        except ValueError as error:
            raise VerifierError(str(error), code="host_variable") from error
