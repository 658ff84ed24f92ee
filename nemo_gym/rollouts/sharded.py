"""A run whose collector is several processes, for when one core is too little to read the agents' answers.

Each process works off its share of the tasks into files of its own; see `shard_process`. Here they are started, told
when to stop, and counted: the rules that stop a run, its tally and its metrics are those of all shares together. Their
rows end up in the run's one file, so that neither a reader nor a resume can tell how many processes there were.
"""

from __future__ import annotations

import asyncio
import bisect
import logging
import math
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from nemo_gym import PARENT_DIR
from nemo_gym.rollouts.channel import Channel
from nemo_gym.rollouts.run_metrics import RunMetrics
from nemo_gym.rollouts.shard_process import Command, Ended, Progress, Settled, ShardSetup, Told
from nemo_gym.rollouts.stopping import Stop, StopReason, StopRules, first_of
from nemo_gym.rollouts.tally import Tally

log = logging.getLogger(__name__)

_GRACE_S: Final = 5.0
"""Beyond its drain, for a shard to close its files."""
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from nemo_gym.rollouts.shard_process import main; main(int(sys.argv[1]))"
)


class Shards:
    """The processes of a run."""

    def __init__(
        self, setups: Sequence[ShardSetup], tally: Tally, metrics: RunMetrics, rules: StopRules, stop: Stop
    ) -> None:
        """`tally` and `metrics` get what all shares come to."""
        self._setups = setups
        self._tally = tally
        self._metrics = metrics
        self._rules = rules
        self._stop = stop
        self._processes: list[_ShardProcess] = []
        self._settled: list[Settled] = []
        """Rollouts that the rules have not heard of yet."""
        self.has_lost_one = False
        """Whether a process died, and what it counted with it; its rows are there."""

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    async def run(self) -> None:
        """Returns when every share is worked off, or the run was stopped and nothing is in flight."""
        try:
            for setup in self._setups:
                self._processes.append(await _ShardProcess.start(setup, self))
            work = asyncio.gather(*(process.ended for process in self._processes))
            await first_of(work, self._stop.draining)
            if not work.done():
                self._tell(Command.DRAIN)
                drain_s = self._setups[0].limits.drain_s
                await first_of(work, self._stop.cutting, timeout=drain_s)
            if not work.done():
                self._tell(Command.CUT)
                await asyncio.wait([work], timeout=_GRACE_S)
        finally:
            await asyncio.gather(*(process.end() for process in self._processes))

    def note_progress(self, progress: Progress) -> None:
        """Sum up, and let the rules judge."""
        add_up(self._tally, (process.tally for process in self._processes))
        self._settled += progress.settled
        self._judge()

    def _judge(self) -> None:
        """Tell the rules of what is settled, in the order in which it was, as far as every process has told."""
        self._settled.sort(key=lambda settled: settled.at)
        told = min((process.told_at for process in self._processes), default=0.0)
        known = bisect.bisect_right(self._settled, told, key=lambda settled: settled.at)
        for _, failure in self._settled[:known]:
            if failure is None:
                self._rules.note_success()
            elif (reason := self._rules.note_failure(failure)) is not None:
                self._stop.drain(reason)
        del self._settled[:known]

    def note_end(self, ended: Ended) -> None:
        self._metrics.merge(ended.metrics)
        self._judge()
        if ended.broken is not None:
            self._stop.drain(ended.broken)

    def note_death(self, pid: int) -> None:
        self.has_lost_one = True
        self._stop.drain(
            StopReason(
                "broken",
                f"collector process {pid} is gone; every row that it finished is safe",
                "Perhaps the system ran out of memory. Go on with +resume_from_cache=true.",
            )
        )

    def _tell(self, command: Command) -> None:
        for process in self._processes:
            process.channel.send(command)


def add_up(total: Tally, shares: Iterable[Tally]) -> None:
    """Make the counts of `total`, the plan aside, those of all `shares`."""
    whole = Tally(total.planned, total.finished_before, auto=total.auto)
    for share in shares:
        for name in ("in_flight", "completed", "truncated", "failed", "cancelled", "discarded", "retries"):
            setattr(whole, name, getattr(whole, name) + getattr(share, name))
        whole.failures += share.failures
        whole.reward_sum += share.reward_sum
    for name in Tally.__slots__:
        setattr(total, name, getattr(whole, name))


class _ShardProcess:
    """One process as its collector sees it."""

    def __init__(self, process: subprocess.Popen[bytes], shards: Shards) -> None:
        self._process = process
        self._shards = shards
        self.channel = Channel(self._receive, self._end_of_channel)
        self.tally = Tally(planned=0)
        self.told_at = 0.0
        """Until when it has told of everything."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(cls, setup: ShardSetup, shards: Shards) -> _ShardProcess:
        ours, theirs = socket.socketpair()
        with theirs:
            process = cls(_spawn(theirs.fileno()), shards)
        await asyncio.get_running_loop().create_connection(lambda: process.channel, sock=ours)
        process.channel.send(setup)
        return process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def end(self) -> None:
        """Wait until the process is gone, which it soon is without its collector."""
        self.channel.close()
        try:
            await asyncio.to_thread(self._process.wait, _GRACE_S)
        except subprocess.TimeoutExpired:
            log.warning("collector process %d does not end; it is killed", self.pid)
            self._process.kill()
            self._process.wait()

    def _receive(self, message: Told) -> None:
        if isinstance(message, Progress):
            self.tally, self.told_at = message.tally, message.told_at
            self._shards.note_progress(message)
        else:
            self.told_at = math.inf
            self._shards.note_end(message)
            self.ended.set_result(None)

    def _end_of_channel(self) -> None:
        if not self.ended.done():
            self.tally.in_flight = 0
            self.told_at = math.inf
            self.ended.set_result(None)
            self._shards.note_death(self.pid)


def _spawn(descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(descriptor), str(PARENT_DIR)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,  # Ctrl-C is for the collector, which drains
    )
