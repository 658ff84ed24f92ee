"""Plays a scenario in virtual time: one run of the collector, resumed until it is complete."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nemo_gym import clock
from nemo_gym.failures import GymError
from nemo_gym.rollouts.output import disk as disks
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.discovery import DiscoveredGym, ask_head
from nemo_gym.rollouts.run.progress import Display, Pace
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop
from nemo_gym.rollouts.run.summary import CollectSummary, read_counts
from nemo_gym.serving.sessions import CLOSING_TAKES_S, SWEEP_EVERY_S
from nemo_gym.transport.moving_caller import MovingCaller
from simulation.closings import SessionsAreClosedOnce
from simulation.control import Operator
from simulation.crashing_disk import CrashingDisk
from simulation.deadlines import DeadlinesAreKept, InterruptedRunsEnd, NoOrphanedWork
from simulation.determinism import SeededSources, errors_reported_to
from simulation.durability import CrashesAtCalls, EngineAnswersOnce
from simulation.environment import draw_task
from simulation.events import Ended, Event, Kind, Rest
from simulation.faults import (
    COLLECTOR,
    SECOND_INTERRUPT_WITHIN_S,
    CallFaults,
    CollectorFault,
    CollectorFaultKind,
    CrashAtCall,
    Partition,
)
from simulation.fencing import FencedReplicasDoNothing
from simulation.files import FailuresFile, FilesRecover, LineCounts, is_row, whole_lines
from simulation.gym import SimulatedGym
from simulation.invariants import (
    AttemptsAreMade,
    CountedRowsAreWritten,
    CountsAgree,
    FailuresHaveCauses,
    NoSurprises,
    NothingLost,
    NothingTwice,
    QueuesAreBounded,
    RewardsAreTrue,
    SessionsAreClosed,
)
from simulation.monitor import Invariant, Monitor, Violation
from simulation.network import Network
from simulation.processes import Process, owned_task_factory
from simulation.scenario import Scenario
from simulation.virtual_time import run_virtually

MOST_STARTS = 20
_MEMORY = Path("/dev/shm")
_CRASHES_AFTER_S = 0.003
"""Virtual seconds between an answer of the engine and the crash that it sets off: the agent may have it, or not."""
_ENDS_WITHIN_S = 1.0
"""Seconds of cleanup that a finished run may take."""
_REPAIRED_WITHIN_S = 120.0
"""Virtual seconds after which every server is up again."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of playing a scenario."""

    scenario: Scenario
    violations: list[Violation]
    digest: str
    """The digest of the trace. It is the same in every replay."""
    events: list[Event] = field(repr=False)
    seconds: float = 0.0
    """Virtual seconds."""

    @property
    def finding(self) -> Violation | None:
        """The first violation, if any."""
        return self.violations[0] if self.violations else None

    @property
    def faults_met(self) -> int:
        """The number of faults that occurred. A plan may name calls that are never made."""
        return sum(event.kind in (Kind.FAULT, Kind.DIED, Kind.INTERRUPTED) for event in self.events)


def play(scenario: Scenario) -> Result:
    """Play `scenario` to its end."""
    folder = Path(tempfile.mkdtemp(prefix="simulation_", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        return run_virtually(_Play(scenario, folder).run())
    finally:
        shutil.rmtree(folder)


def _list_uncontrolled_invariants(scenario: Scenario) -> list[Invariant]:
    """Return the invariants that an operator may violate: attempts are cancelled, requeued and paused."""
    return [AttemptsAreMade(scenario), FailuresHaveCauses(scenario), DeadlinesAreKept(scenario)]


class _CountersDisplay(Display):
    """Keeps a reference to the run's counters."""

    def __init__(self) -> None:
        self.counters: RunCounters | None = None

    def show(self, counters: RunCounters, pace: Pace) -> None:
        self.counters = counters


class _Play:
    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self._scenario = scenario
        self._files = RunFiles.from_output(folder / f"out{scenario.ending}")
        self._dataset = folder / "tasks.jsonl"
        rng = scenario.rng("tasks")
        self._rows = [draw_task(rng, number) for number in range(scenario.tasks)]
        self._dataset.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in self._rows))
        self._display = _CountersDisplay()
        self._stop: Stop | None = None
        self._collector = Process("collector")
        self._timed_faults: list[asyncio.TimerHandle] = []

    async def run(self) -> Result:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(owned_task_factory)
        self._build(loop)
        loop.set_exception_handler(self._record_lost_error)
        seeded = SeededSources(self._scenario.rng("sources"), loop.time)
        clock.pause.end()
        clock.pause.seconds = 0.0  # those of other plays
        with (
            clock.replaced_by(seeded),
            disks.replaced_by(self._disk),
            errors_reported_to(self._record_surprise),
        ):
            await self._gym.start()
            self._schedule_faults(loop)
            await self._start_until_complete()
            await self._come_to_rest()
            if self._gym.nodes is not None:
                self._gym.nodes.close()
            await self._network.close()
        return Result(
            scenario=self._scenario,
            violations=self._monitor.violations,
            digest=self._monitor.trace.digest,
            events=self._monitor.trace.events,
            seconds=loop.time(),
        )

    def _build(self, loop: asyncio.AbstractEventLoop) -> None:
        scenario = self._scenario
        self._monitor = Monitor(loop.time)
        self._faults = CallFaults(scenario.faults)
        self._network = Network(self._monitor, self._faults, scenario.rng("network"))
        self._gym = SimulatedGym(scenario, self._network, self._monitor, self._files.folder)
        self._disk = CrashingDisk(self._monitor, scenario.faults, self._kill)
        self._crashes = CrashesAtCalls(scenario.faults, self._crash_soon)
        self._operator = Operator(scenario, self._monitor)
        self._monitor.invariants = self._invariants()

    def _invariants(self) -> list[Invariant]:
        scenario = self._scenario
        durable: list[Invariant] = [EngineAnswersOnce(self._files.attempts), self._crashes]
        return [
            NothingTwice(),
            NothingLost(scenario),
            CountedRowsAreWritten(self._counted, LineCounts(self._files, self._disk)),
            CountsAgree(scenario),
            *(() if scenario.requests else _list_uncontrolled_invariants(scenario)),
            RewardsAreTrue(self._rows),
            SessionsAreClosed(),
            SessionsAreClosedOnce(),
            QueuesAreBounded(scenario),
            NoOrphanedWork(),
            FencedReplicasDoNothing(),
            InterruptedRunsEnd(),
            FilesRecover(),
            NoSurprises(),
            *(durable if scenario.is_durable else ()),
        ]

    # --- The run and its starts ---------------------------------------------------------------------------------

    async def _start_until_complete(self) -> None:
        """Start the run as an operator would: again after each death, and once more after all repairs."""
        existing, is_last = Existing.REFUSE, False
        for number in range(MOST_STARTS):
            ended = await self._start(number, existing, is_last)
            if ended.how == "complete" or is_last:
                return
            existing = Existing.RESUME
            if ended.how in ("partial", "refused") or number == MOST_STARTS - 2:
                is_last = True
                await self._repair_everything()

    async def _repair_everything(self) -> None:
        self._faults.disarm()
        self._disk.disarm()
        self._crashes.disarm()
        self._operator.stop()
        for fault in self._timed_faults:
            fault.cancel()
        await asyncio.sleep(_REPAIRED_WITHIN_S)

    async def _start(self, number: int, existing: Existing, is_last: bool) -> Ended:
        self._network.start_number = number
        self._collector = Process("collector")
        self._disk.serve(self._collector)
        earlier = FailuresFile.look(self._files.failures)
        self._monitor.record(Kind.START, "collector", detail=number)
        work = self._collector.spawn(self._collect(existing), f"start {number}")
        await self._finish(work)
        await self._end_collector()
        self._disk.close_all()
        ended = self._describe(number, work, is_last, earlier)
        self._display.counters = self._stop = None
        self._monitor.record(Kind.ENDED, "collector", detail=ended)
        return ended

    async def _finish(self, work: asyncio.Task[CollectSummary]) -> None:
        """Wait for the end of a start of the run, with a time limit."""
        too_much = asyncio.ensure_future(self._monitor.event_limit_reached.wait())
        await asyncio.wait({work, too_much}, timeout=self._longest_s(), return_when=asyncio.FIRST_COMPLETED)
        too_much.cancel()
        if not work.done():
            self._record_surprise(f"the run does not end within {self._longest_s():g} s")
            self._kill("it was given up")

    async def _end_collector(self) -> None:
        """End the collector's process, and report tasks that still run after a regular end."""
        if self._collector.is_alive and (tasks := self._collector.tasks):
            _, left = await asyncio.wait(tasks, timeout=_ENDS_WITHIN_S)
            if left:
                self._record_surprise(f"the run is over, and {len(left)} tasks of the collector go on")
        self._collector.kill()
        await self._collector.ended()

    def _longest_s(self) -> float:
        scenario = self._scenario
        of_pauses = 120.0 * len(scenario.requests)
        return (
            600.0 + of_pauses + scenario.planned * scenario.max_attempts * (scenario.rollout_timeout_s + 60.0)
        )

    async def _collect(self, existing: Existing) -> CollectSummary:
        transport = self._network.transport_of(self._collector)
        gym = DiscoveredGym(await ask_head(self._gym.head_url, transport))
        scenario, self._stop = self._scenario, Stop()
        settings = CollectSettings(
            datasets=(DatasetFile(self._dataset, scenario.repeats),),
            output=self._files.rows,
            existing=existing,
            limits=RunLimits(
                in_parallel=scenario.in_parallel,
                max_attempts=scenario.max_attempts,
                rollout_timeout_s=scenario.rollout_timeout_s,
            ),
            durability="process" if scenario.is_durable else "off",
            keep_attempts="all" if scenario.is_durable else "none",  # so that the invariants can read them
        )
        caller = gym.caller(transport)
        try:
            return await collect(
                settings,
                caller,
                gym,
                stop=self._stop,
                display=self._display,
                serve=self._operator.serve if scenario.requests else None,
            )
        finally:
            if isinstance(caller, MovingCaller):
                caller.stop_following()

    def _describe(
        self, number: int, work: asyncio.Task[CollectSummary], is_last: bool, earlier: FailuresFile
    ) -> Ended:
        how, exit_code, error = "died", None, ""
        counts: tuple[tuple[str, int], ...] = ()
        mean_reward = None
        if not work.cancelled():
            problem = work.exception()
            if problem is None:
                summary = work.result()
                how, exit_code = summary.end, summary.exit_code
                counts = tuple(read_counts(summary.counters).items())
                mean_reward = summary.agents[0].mean_reward if summary.agents else None
            elif isinstance(problem, GymError):
                how, error = "refused", f"{problem.failure.code}: {problem}"
            else:
                how, error = "broken", repr(problem)
                self._record_surprise(f"the run broke: {problem!r}")
        rows = whole_lines(self._files.rows)
        failures = FailuresFile.look(self._files.failures).written_after(earlier)
        return Ended(
            start=number,
            how=how,
            exit_code=exit_code,
            rows=tuple(filter(is_row, rows)),
            failures=tuple(filter(is_row, failures)),
            damaged=tuple(line for line in (*rows, *failures) if not is_row(line)),
            counts=counts,
            mean_reward=mean_reward,
            is_last=is_last,
            error=self._without_folder(error),
        )

    # --- Faults at their times --------------------------------------------------------------------------------

    def _schedule_faults(self, loop: asyncio.AbstractEventLoop) -> None:
        for fault in self._scenario.faults:
            if isinstance(fault, Partition) and self._gym.nodes is not None:
                partition = loop.call_later(fault.at, self._gym.nodes.start_partition, fault)
                self._timed_faults.append(partition)
            elif isinstance(fault, CollectorFault) and fault.kind is CollectorFaultKind.KILLED:
                self._timed_faults.append(loop.call_later(fault.at, self._kill, "it was killed"))
            elif isinstance(fault, CollectorFault) and fault.kind is CollectorFaultKind.INTERRUPTED:
                for moment in (fault.at, fault.at + SECOND_INTERRUPT_WITHIN_S * fault.share):
                    self._timed_faults.append(loop.call_later(moment, self._interrupt))

    def _crash_soon(self, fault: CrashAtCall) -> None:
        """Crash a process within the step that follows an answer of the engine."""
        asyncio.get_running_loop().call_later(_CRASHES_AFTER_S, self._crash, fault)

    def _crash(self, fault: CrashAtCall) -> None:
        if fault.server == COLLECTOR:
            self._kill(str(fault))
        elif (address := self._network.find_address(fault.server)) is not None:
            self._network.crash(address, fault.seconds)

    def _kill(self, why: str) -> None:
        if self._collector.is_alive and self._collector.tasks:
            self._monitor.record(Kind.DIED, "collector", detail=why)
            self._collector.kill()

    def _interrupt(self) -> None:
        if self._stop is not None:
            self._monitor.record(Kind.INTERRUPTED, "collector")
            self._stop.interrupt()

    # --- Observations -------------------------------------------------------------------------------------------

    def _counted(self) -> tuple[int, int]:
        counters = self._display.counters
        return (
            (counters.finished_before + counters.scored, counters.failed) if counters is not None else (0, 0)
        )

    def _record_surprise(self, what: str) -> None:
        self._monitor.record(Kind.SURPRISE, "gym", detail=self._without_folder(what))

    def _without_folder(self, text: str) -> str:
        """Remove the run's folder, which differs between replays, from `text`."""
        return text.replace(f"{self._files.folder}/", "")

    def _record_lost_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._record_surprise(f"{context['message']}: {context.get('exception')!r}")

    async def _come_to_rest(self) -> None:
        """Wait until the sweepers have run, and record the remaining state."""
        await asyncio.sleep(self._scenario.rollout_timeout_s + CLOSING_TAKES_S + 2 * SWEEP_EVERY_S)
        rest = Rest(
            sessions_open=sum(len(server.middleware.access.sessions) for server in self._gym.environments),
            states_held=sum(server.states_held for server in self._gym.environments),
            calls_in_flight=self._network.calls_in_flight,
            tasks_running=self._network.tasks_running,
        )
        self._monitor.record(Kind.OVER, "world", detail=rest)
