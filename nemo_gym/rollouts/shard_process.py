"""A process that works off a share of a run: its tasks are those whose number leaves its index when divided.

It has a journal of its own, `<stem>_shard_<index>.jsonl`, in which rows are as safe as in any; the collector that
started it takes them over at the end, or the next start of the run does. What makes a run one (what is planned, when
it stops, its metrics and its display) stays with that collector, which is told of progress several times a second.
When the collector goes away, every call is cancelled and the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from nemo_gym import sources
from nemo_gym.failures import Failure, GymError
from nemo_gym.rollouts.agent_attempter import AgentAttempter
from nemo_gym.rollouts.answer import Failed, Scored
from nemo_gym.rollouts.channel import Channel
from nemo_gym.rollouts.collector import Collector, Limits
from nemo_gym.rollouts.files import RunFiles
from nemo_gym.rollouts.identity import FinishedRollouts
from nemo_gym.rollouts.packed_file import RowsFile, append_to
from nemo_gym.rollouts.plan import Plan, PlannedAttempt, PlanSettings, Share
from nemo_gym.rollouts.run_metrics import RunMetrics
from nemo_gym.rollouts.stopping import Stop, StopReason, StopRules
from nemo_gym.rollouts.tally import Tally
from nemo_gym.transport import Caller, Directory, HttpTransport

log = logging.getLogger(__name__)

_TOLD_EVERY_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ShardSetup:
    """What a shard is told first."""

    share: Share
    files: RunFiles
    plan: PlanSettings
    first_tasks: tuple[int, ...]
    finished: FinishedRollouts
    limits: Limits
    urls: Mapping[str, Sequence[str]]
    """Server name → base URLs."""
    token: str | None


class Command(StrEnum):
    """What a shard is told later."""

    DRAIN = "drain"
    """Begin nothing more."""
    CUT = "cut"
    """Cancel what is in flight."""


class Settled(NamedTuple):
    """A rollout that is over."""

    at: float
    failure: Failure | None


@dataclass(slots=True)
class Progress:
    """How a shard stands."""

    tally: Tally
    settled: list[Settled] = field(default_factory=list)
    """Since it was last told."""
    told_at: float = 0.0
    """By the clock of the machine, which all its processes share."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A shard's last word, after its last progress."""

    metrics: RunMetrics
    broken: StopReason | None
    """Why it could not go on."""


Told: TypeAlias = Progress | Ended


class _ShardOutput:
    def __init__(self, files: RunFiles) -> None:
        self._rows: RowsFile = append_to(files.rows)
        self._failures: RowsFile = append_to(files.failures)

    def add_row(self, line: bytes) -> None:
        self._rows.append(line)

    def add_failure(self, line: bytes) -> None:
        self._failures.append(line)

    def close(self) -> None:
        self._rows.close()
        self._failures.close()


class _Shard:
    """The share at work."""

    def __init__(self) -> None:
        self.channel = Channel(self._receive, self._abandon)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Resolves when there is nothing left to do."""
        self.gone = asyncio.Event()
        """Set when the channel is closed, and everything in it is sent."""
        self._stop = Stop()
        self._metrics = RunMetrics()
        self._progress = Progress(Tally(planned=0))
        self._work: asyncio.Task[None] | None = None

    def _receive(self, message: ShardSetup | Command) -> None:
        match message:
            case ShardSetup():
                self._work = asyncio.create_task(self._run(message))
                self._work.add_done_callback(lambda _: self._end())
            case Command.DRAIN:
                self._stop.drain(StopReason("told", "the collector ends the run"))
            case Command.CUT:
                self._stop.interrupt()
                self._stop.cutting.set()

    def _abandon(self) -> None:
        """The collector is gone, or was told the last word."""
        self.gone.set()
        if self._work is not None:
            self._work.cancel()
        else:
            self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    async def _run(self, setup: ShardSetup) -> None:
        telling = asyncio.create_task(self._keep_telling())
        transport = HttpTransport()
        broken: StopReason | None = None
        try:
            plan = Plan(setup.plan, first_tasks=setup.first_tasks, finished=setup.finished, share=setup.share)
            with closing(_ShardOutput(setup.files)) as output:
                await self._collector(setup, output, transport).run(plan)
        except GymError as error:
            broken = StopReason("broken", error.failure.message, error.failure.remedy)
        except Exception as error:
            log.exception("shard %d broke", setup.share.index)
            broken = StopReason("broken", f"{type(error).__name__}: {error}")
        finally:
            telling.cancel()
            await transport.close()
        self._tell()
        self.channel.send(Ended(self._metrics, broken))

    def _collector(self, setup: ShardSetup, output: _ShardOutput, transport: HttpTransport) -> Collector:
        caller = Caller(Directory(setup.urls), transport)
        tally = self._progress.tally
        return Collector(
            AgentAttempter(caller, timeout_s=setup.limits.rollout_timeout_s, token=setup.token),
            output,
            tally,
            limits=setup.limits,
            rules=StopRules(0, identical_failures=0),  # the collector that started us has the rules
            stop=self._stop,
            on_settled=self._note,
        )

    def _note(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        self._metrics.note(planned, result)
        failure = result.failure if isinstance(result, Failed) else None
        self._progress.settled.append(Settled(sources.monotonic(), failure))

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(_TOLD_EVERY_S)
            self._tell()

    def _tell(self) -> None:
        self._progress.told_at = sources.monotonic()
        self.channel.send(self._progress)
        self._progress = replace(self._progress, settled=[])


async def serve(sock: socket.socket) -> None:
    """Work a share off: the first message says which."""
    shard = _Shard()
    await asyncio.get_running_loop().create_connection(lambda: shard.channel, sock=sock)
    await shard.ended
    shard.channel.close()
    await shard.gone.wait()


def main(descriptor: int) -> None:
    import uvloop

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(socket.socket(fileno=descriptor)))
