"""Task folders as an environment: a sandbox for each session, a shell as its tool, and the task's own verifier."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, PrivateAttr

from nemo_gym.failures import GymError, InputError
from nemo_gym.json_objects import member
from nemo_gym.names import AGENT_TIMEOUT_KEY, NEXT_TURN_KEY, TURN_KEY
from nemo_gym.processes.workers import available_cores
from nemo_gym.resources.server import BaseResourcesServerConfig, SimpleResourcesServer
from nemo_gym.rows.models import (
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
)
from nemo_gym.sandbox.config import resolve_provider_config
from nemo_gym.sandbox.providers.protocols import ConnectableProvider
from nemo_gym.sandbox.providers.registry import create_provider
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.sources.task_folders.dataset import read_gym_table
from nemo_gym.sources.task_folders.folder import load_folder
from nemo_gym.sources.task_folders.gym_table import GymTable
from nemo_gym.sources.task_folders.requirements import Limit
from nemo_gym.sources.task_folders.rewards import MAIN_REWARD, find_main_reward
from nemo_gym.sources.task_folders.sandboxes import Sandboxes
from nemo_gym.sources.task_folders.trial import Trial

__all__ = ["TaskFoldersServer"]

_COMMAND_S = 120.0
_OWN_FIELDS = frozenset(BaseVerifyResponse.model_fields)


class TaskFoldersConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.UNSUPPORTED
    RUNS_CODE: ClassVar[bool] = True

    folder: str
    """The folder in which the folders of tasks are."""
    sandbox_provider: str | dict[str, Any] = Field(default_factory=lambda: {"rootless": {}})
    network: str | None = None
    """`none` to run tasks without a network that ask for one."""
    task_variables: list[str] = Field(default_factory=list)
    """Variables of this machine that tasks may read as `${NAME}`. No other one is ever read."""
    unlimited: list[Limit] = Field(default_factory=list)
    """Limits of tasks that the provider cannot enforce, and that tasks may run without."""
    packages: list[str] = Field(default_factory=list)
    """Packages of the base system beside the default ones, as `gym env prefetch` installed them."""
    readable: list[str] = Field(default_factory=list)
    """Folders of this machine that sandboxes show read-only, beside those of the harnesses that play here."""
    build_network: bool = False
    """Let the RUN lines of images use this machine's network, which reaches its loopback, too."""
    reward_key: str = MAIN_REWARD
    """The reward that counts, of a task with several."""
    artifacts: str | None = None
    """A folder that keeps the artifacts of every attempt, below its task."""
    max_sandboxes: PositiveInt | None = None
    """Attempts at the same time; by default four per core."""
    max_output_chars: PositiveInt = 20_000
    """The output of a command that the agent gets."""
    command_timeout_s: PositiveFloat = _COMMAND_S
    """Seconds of a command whose call states none."""


class TaskRowAbout(BaseModel):
    folder: str
    files: dict[str, str] = Field(default_factory=dict)
    """Digests of the files that are no part of the folder's digest."""


class TaskFoldersSeedRequest(BaseSeedSessionRequest):
    task_folder: TaskRowAbout
    folder_digest: str


class TaskFoldersSeedResponse(BaseSeedSessionResponse):
    sandbox_access: dict[str, Any] | None = None
    """The sandbox, for an agent that works in it."""


class TaskFoldersVerifyRequest(BaseVerifyRequest):
    model_config = ConfigDict(extra="allow")


class TaskFoldersVerifyResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


class ShellCommand(BaseModel):
    command: str
    timeout_s: PositiveFloat | None = None


@dataclass(slots=True)
class TrialSession:
    """A trial, and the answers of its verifier by turn."""

    trial: Trial
    answers: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)


class TaskFoldersServer(SimpleResourcesServer):
    config: TaskFoldersConfig
    reads_tokens: ClassVar[bool] = False

    _sandboxes: Sandboxes = PrivateAttr()
    _sessions: dict[str, TrialSession] = PrivateAttr(default_factory=dict)
    _slots: asyncio.Semaphore = PrivateAttr()
    _gym: GymTable = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        config = self.config
        blocks = self.server_client.global_config_dict
        provider = create_provider(resolve_provider_config(config.sandbox_provider, blocks))
        readable = [*config.readable, *self._list_installations(blocks)]
        self._sandboxes = Sandboxes(
            provider, config.build_network, config.packages, readable, config.unlimited
        )
        self._gym = read_gym_table(Path(config.folder))
        self._slots = asyncio.Semaphore(config.max_sandboxes or 4 * available_cores())

    def _list_installations(self, blocks: Any) -> list[str]:
        """Return the folders that the harnesses of this environment are installed in."""
        found: dict[str, None] = {}
        for block in blocks.values():
            agents = member(block, "responses_api_agents") or {}
            for options in agents.values():
                if member(options, "resources_server", "name") == self.config.name:
                    found.update(dict.fromkeys(member(options, "readable") or ()))
        return list(found)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/bash")(self.bash)
        app.post("/play_solution")(self.play_solution)
        return app

    async def seed_session(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: TaskFoldersSeedRequest
    ) -> TaskFoldersSeedResponse:
        session = request.session[SESSION_ID_KEY]
        await self.release_session(session)
        folder = Path(self.config.folder) / body.task_folder.folder
        task = await asyncio.to_thread(load_folder, folder, self._gym)
        if task.digest != body.folder_digest or task.digest_outer_files() != body.task_folder.files:
            raise InputError(
                f"the task folder {task.root} has changed since its row was made",
                code="task_changed",
                remedy="Start the run anew, or restore the folder.",
            )
        await self._slots.acquire()
        kept = Path(self.config.artifacts, task.name, session) if self.config.artifacts else None
        trial = Trial(task, self._sandboxes, frozenset(self.config.task_variables), artifacts=kept)
        self._sessions[session] = TrialSession(trial)
        await trial.start(self.find_snapshot(session))
        return TaskFoldersSeedResponse(sandbox_access=await self._describe_access(trial))

    async def _describe_access(self, trial: Trial) -> dict[str, Any] | None:
        provider = self._sandboxes.provider
        if not isinstance(provider, ConnectableProvider):
            return None
        descriptor = await trial.sandbox.sandbox.serialize()
        if trial.agent.user is not None:
            descriptor["user"] = str(trial.agent.user)
        return {"connection": {"provider_config_ref": provider.name, "descriptor": descriptor}}

    async def snapshot_session(self, session: str, path: Path) -> bool:
        held = self._sessions.get(session)
        return held is not None and await held.trial.snapshot(path)

    async def release_session(self, session_id: str) -> None:
        held = self._sessions.pop(session_id, None)
        if held is not None:
            try:
                await held.trial.close()
            finally:
                self._slots.release()

    async def bash(self, request: Request, body: ShellCommand) -> dict[str, Any]:
        """Run a bash command in the task's sandbox, and return its output and exit status."""
        trial = self._find(request).trial
        left_s = trial.left_s()
        wanted_s = body.timeout_s or self.config.command_timeout_s
        if left_s is not None and left_s <= 0:
            raise HTTPException(408, "the time of this task is over")
        done = await trial.run_command(body.command, wanted_s if left_s is None else min(wanted_s, left_s))
        output = f"{done.stdout}{done.stderr}"
        most = self.config.max_output_chars
        if len(output) > most:
            cut = f"\n… {len(output) - most} characters left out …\n"
            output = output[: most // 2] + cut + output[-(most - most // 2) :]
        return {
            "exit_code": done.return_code,
            **({"ended": done.error_type} if done.error_type else {}),
            "output": output,
        }

    async def play_solution(self, request: Request) -> dict[str, Any]:
        """Run the task's own solution, for the agent `oracle`. It is no tool of any task."""
        done = await self._find(request).trial.play_solution()
        return {"exit_code": done.return_code, "timed_out": done.error_type == "timeout"}

    def _find(self, request: Request) -> TrialSession:
        session = request.session[SESSION_ID_KEY]
        if session not in self._sessions:
            raise HTTPException(409, f"session {session} was not opened with /seed_session")
        return self._sessions[session]

    async def verify(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: TaskFoldersVerifyRequest
    ) -> TaskFoldersVerifyResponse:
        session, turn = self._find(request), (body.model_extra or {}).get(TURN_KEY, 0)
        if turn not in session.answers:
            session.trial.response = body.response.model_dump(mode="json")
            session.answers[turn] = asyncio.ensure_future(self._judge(session.trial))
        answer = await asyncio.shield(session.answers[turn])
        return TaskFoldersVerifyResponse(
            responses_create_params=body.responses_create_params, response=body.response, **answer
        )

    async def _judge(self, trial: Trial) -> dict[str, Any]:
        """Finish a step, and return the rewards of the task, or the next step with those of this one."""
        verdict = await trial.finish_step()
        if await trial.begin_next_step():
            step = trial.step
            following = {
                "input": [{"type": "message", "role": "user", "content": trial.task.instruction(step)}],
                AGENT_TIMEOUT_KEY: trial.agent.timeout_sec,
            }
            return {MAIN_REWARD: 0.0, NEXT_TURN_KEY: following}
        rewards = trial.combine()
        answer: dict[str, Any] = {
            f"reward_{name}" if name in _OWN_FIELDS - {MAIN_REWARD} else name: value
            for name, value in rewards.items()
        }
        answer[MAIN_REWARD] = find_main_reward(rewards, self.config.reward_key)
        if trial.task.settings.steps:
            answer["steps"] = [_describe_step(each) for each in trial.verdicts]
        if verdict.artifacts:
            answer["artifacts"] = verdict.artifacts
        if trial.artifacts is not None:
            answer["artifacts_folder"] = str(trial.artifacts)
        return answer


def _describe_step(verdict: Any) -> dict[str, Any]:
    failure: GymError | None = verdict.failure
    return {
        "name": verdict.step,
        "rewards": dict(verdict.rewards) if verdict.rewards is not None else None,
        **({"failure": failure.failure.code} if failure is not None else {}),
    }
