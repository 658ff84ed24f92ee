"""Foreign environments of the loop `ours` as a step-style environment: `gymnasium_agent` plays, a host answers.

The policy has one seat. Models at `opponent_model_server` play the other ones, each in a conversation of its own that
belongs to no rollout.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, PrivateAttr

from nemo_gym.config.types import ModelServerRef
from nemo_gym.episodes.driver import require_ok
from nemo_gym.failures import ConfigError, ForeignError, VerifierError
from nemo_gym.processes.workers import available_cores
from nemo_gym.resources.gymnasium import GymnasiumServer, StepResult, extract_text
from nemo_gym.resources.server import BaseResourcesServerConfig
from nemo_gym.responses.items import FunctionToolCall
from nemo_gym.responses.schemas import Response
from nemo_gym.rows.forms import TaskRow
from nemo_gym.rows.identity import read_repeat
from nemo_gym.rows.models import read_task
from nemo_gym.sources.foreign.kinds import ForeignName, read_name
from nemo_gym.sources.foreign.pool import HostPool
from nemo_gym.sources.foreign.process import HostProcess, HostProgram
from nemo_gym.sources.foreign.venvs import Venvs
from nemo_gym.transport.context import RequestContext, current_context

__all__ = ["ForeignRow", "ForeignServer", "ForeignSource"]

_PROCESSES_PER_CORE = 4


class ForeignSource(BaseModel):
    """An environment, and its processes: a part of its server's options, which `foreign_agent` reads, too."""

    source: str
    """Its name, such as `textarena:Mastermind-v0`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the environment, such as `players`."""
    venvs: str | None = None
    """The folder of interpreters, by default one for all gyms of this user."""
    opponent_model_server: ModelServerRef | None = None
    """The model of the seats that the policy does not have."""
    opponent_params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of its calls, such as `temperature`."""
    max_hosts: PositiveInt | None = None
    """Processes of the environment, one for each attempt that is running; by default four per core."""
    attempts_per_host: PositiveInt = 1000
    memory_mib: PositiveInt = 2048
    """Memory of one process."""

    def build_pool(self) -> HostPool:
        """Return the hosts of this environment. Raises `ConfigError` if its packages are not installed."""
        program = build_program(self.source, self.options, self.venvs, self.memory_mib)
        return HostPool(
            program, self.max_hosts or _PROCESSES_PER_CORE * available_cores(), self.attempts_per_host
        )


class ForeignConfig(ForeignSource, BaseResourcesServerConfig):
    RUNS_CODE: ClassVar[bool] = True

    step_timeout_s: PositiveFloat = 120.0


class ForeignTask(BaseModel):
    """The field `foreign` of a task row."""

    model_config = ConfigDict(extra="allow")

    task: str
    digest: str
    seed: NonNegativeInt = 0
    seat: NonNegativeInt | None = None
    """The policy's seat; by default it changes with the number of the rollout."""
    data: dict[str, Any] = Field(default_factory=dict)

    def require_same(self, source: str, about: Mapping[str, Any]) -> None:
        """Raise `ForeignError` if the environment is not that for which the row was made."""
        if about["digest"] != self.digest:
            raise ForeignError(
                f"{source} has changed since its rows were made",
                code="task_changed",
                remedy="Make the rows anew: run without an input file, or with the version that they name.",
            )

    def choose_seat(self, about: Mapping[str, Any], row: TaskRow) -> int:
        """Return the number of the policy's seat in a rollout: the stated one, else one that trains, by its repeat."""
        seats = about.get("seats") or [{}]
        if self.seat is not None:
            return self.seat % len(seats)
        trained = [number for number, seat in enumerate(seats) if seat.get("trainable", True)]
        chosen = trained or range(len(seats))
        return chosen[read_repeat(row) % len(chosen)]


class ForeignRow(BaseModel):
    """The fields of a task row that the server reads."""

    foreign: ForeignTask


@dataclass(slots=True)
class OpenGame:
    """An open attempt."""

    host: HostProcess
    seat: int = 0
    is_over: bool = False
    has_reward: bool = False
    """Whether a step had a reward."""
    conversations: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """The texts that each other seat has read and said."""


class ForeignServer(GymnasiumServer):
    config: ForeignConfig

    _pool: HostPool | None = PrivateAttr(default=None)
    _about: dict[str, Any] = PrivateAttr(default_factory=dict)

    async def on_start(self) -> None:
        """Find the interpreter and the isolation before the first attempt. Raises `ConfigError`."""
        await super().on_start()
        await self._find_pool().prepare()

    async def on_stop(self) -> None:
        await super().on_stop()
        if self._pool is not None:
            await self._pool.close()

    def _find_pool(self) -> HostPool:
        if self._pool is None:
            self._pool = self.config.build_pool()
        return self._pool

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        row = read_task(ForeignRow, metadata)
        await self.release_session(session_id)
        pool = self._find_pool()
        host = await pool.acquire()
        match = self.session_state[session_id] = OpenGame(host)
        about = await self._describe(host)
        row.foreign.require_same(self.config.source, about)
        match.seat = row.foreign.choose_seat(about, TaskRow(metadata))
        task = {"id": row.foreign.task, "data": row.foreign.data}
        opened = await self._ask(match, "open", {"task": task, "seed": row.foreign.seed})
        opened = await self._play_opponents(match, opened, session_id)
        if opened.get("done"):
            raise ForeignError(
                "the game ended before the policy's first turn: another seat forfeited it",
                code="opponent_forfeited",
                retryable=True,
            )
        return opened.get("observation"), dict(opened.get("info") or {})

    async def step(
        self, action: Response, metadata: dict[str, Any], session_id: str | None = None
    ) -> StepResult:
        match: OpenGame = self.episode(session_id)
        calls = [
            {"call_id": item.call_id, "name": item.name, "arguments": item.arguments}
            for item in action.output
            if isinstance(item, FunctionToolCall)
        ]
        text = extract_text(action)
        moved = await self._ask(match, "step", {"seat": match.seat, "text": text, "calls": calls})
        outputs = moved.get("outputs") or []
        moved = await self._play_opponents(match, moved, session_id)
        is_over = bool(moved.get("done"))
        match.is_over = is_over or bool(moved.get("truncated"))
        reward = self._take_reward(match, moved, is_over=is_over)
        info = {**(moved.get("info") or {}), "tool_outputs": outputs}
        own = (moved.get("infos") or {}).get(str(match.seat))
        if own is not None:
            info |= {"seat": match.seat, **own}
            info["metrics"] = {"invalid_move": int(bool(own.get("invalid_move")))}
        return moved.get("observation"), reward, is_over, bool(moved.get("truncated")), info

    async def release_session(self, session_id: str | None) -> None:
        match: OpenGame | None = self.session_state.pop(session_id, None)
        if match is not None and self._pool is not None:
            is_reusable = match.host.is_usable and await self._close_attempt(match)
            await self._pool.release(match.host, is_reusable=is_reusable)

    async def _close_attempt(self, match: OpenGame) -> bool:
        try:
            await self._ask(match, "close", {})
        except (ForeignError, VerifierError):
            return False
        return True

    async def _describe(self, host: HostProcess) -> dict[str, Any]:
        if not self._about:
            self._about = await host.ask("describe", {}, deadline_s=self.config.step_timeout_s)
        return self._about

    async def _ask(self, match: OpenGame, request: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return await match.host.ask(request, fields, deadline_s=self.config.step_timeout_s)

    async def _play_opponents(
        self, match: OpenGame, moved: dict[str, Any], session_id: str | None
    ) -> dict[str, Any]:
        """Let the other seats move until it is the policy's turn, or the game is over."""
        while not moved.get("done") and moved.get("seat", match.seat) != match.seat:
            seat = moved["seat"]
            heard = match.conversations.setdefault(seat, [])
            heard.append({"role": "user", "content": moved.get("observation") or "", "type": "message"})
            said = await self._ask_opponent(heard, f"{session_id}.seat{seat}")
            heard.append({"role": "assistant", "content": said, "type": "message"})
            moved = await self._ask(match, "step", {"seat": seat, "text": said, "calls": []})
        return moved

    async def _ask_opponent(self, heard: list[dict[str, Any]], session: str) -> str:
        server = self.config.opponent_model_server
        if server is None:
            raise ConfigError(
                f"{self.config.source} has several seats, and `{self.config.name}` has no opponent_model_server.",
                code="no_opponent",
                remedy="Set opponent_model_server: {type: responses_api_models, name: policy_model}.",
            )
        body = orjson.dumps({**self.config.opponent_params, "input": heard})
        context = current_context.get()
        own = RequestContext(session, context.deadline if context else None)
        reset = current_context.set(own)
        try:
            reply = await self.server_client.post(server.name, "/v1/responses", data=body)
        finally:
            current_context.reset(reset)
        require_ok(reply, server.name, "answer for an opponent")
        return extract_text(Response.model_validate_json(reply.body))

    def _take_reward(self, match: OpenGame, moved: Mapping[str, Any], *, is_over: bool) -> float:
        """Return the reward of a step; 0 for one without. Raises `VerifierError` at the end of a game without any."""
        rewards = moved.get("rewards") if is_over else None
        reward = moved.get("reward") if rewards is None else rewards.get(str(match.seat))
        if reward is not None:
            match.has_reward = True
            return float(reward)
        if is_over and not match.has_reward:
            raise VerifierError(
                f"{self.config.source} ended without a reward of seat {match.seat}",
                code="bad_reward",
                peer=self.config.source,
            )
        return 0.0


def list_readable(named: ForeignName) -> tuple[Path, ...]:
    """Return the files and folders of an environment outside its interpreter. Raises `ConfigError` if it is not there.

    Those of one that is a file are all beside it, without hidden ones and `env.yaml`, which hold keys.
    """
    folder = named.folder
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError(f"There is no folder {folder}.", code="folder_missing", param="source")
        return (folder,)
    file = named.file
    if file is None:
        return ()
    if not file.is_file():
        raise ConfigError(f"There is no file {file}.", code="file_missing", param="source")
    beside = sorted(each for each in file.parent.iterdir() if each.exists())
    return tuple(each for each in beside if not each.name.startswith(".") and each.name != "env.yaml")


def require_present(names: Iterable[ForeignName]) -> None:
    """Raise `ConfigError` that tells which files and folders of environments are not there."""
    missing = []
    for named in names:
        try:
            list_readable(named)
        except ConfigError as error:
            missing.append(error.failure.message)
    if missing:
        raise ConfigError(" ".join(missing), code="environment_missing", param="source")


def build_program(
    source: str, options: Mapping[str, Any], venvs: str | None = None, memory_mib: int = 2048
) -> HostProgram:
    """Return the program of an environment whose interpreter is there. Raises `ConfigError`."""
    named = read_name(source)
    if named is None:
        raise ConfigError(
            f"`source` is {source!r}, and not KIND:NAME.",
            code="invalid_option",
            param="source",
        )
    if named.is_remote:  # none of its code runs here
        python = Path(sys.executable)
        return HostProgram(
            named.kind.name, named.name, python, options, address=named.name, memory_mib=memory_mib
        )
    readable = list_readable(named)
    python = Venvs(Path(venvs) if venvs else None).find(named.kind)
    return HostProgram(
        named.kind.name,
        named.name,
        python,
        options,
        readable,
        memory_mib=memory_mib,
        calls_models=named.kind.loop == "theirs",
    )
