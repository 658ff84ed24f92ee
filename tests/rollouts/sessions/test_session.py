from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.names import END_KEY
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from tests.rollouts.doubles import Agents, always, failure, run_virtually, scored
from tests.rollouts.sessions.sessions import read, running, task


def run(main: Coroutine[Any, Any, None]) -> None:
    run_virtually(main)


def test_groups_come_whole_and_end_with_the_input() -> None:
    async def main() -> None:
        agents = Agents(seconds=1.0)
        async with running(agents, group_size=3) as session:
            session.submit([task(0), task(1)])
            first = await read(session, 2)
            session.submit([task(2)], ends=True)
            *rest, end = await read(session, after=1)
        assert sorted(line["key"] for line in first + rest) == ["task 0", "task 1", "task 2"]
        assert all(len(line["members"]) == 3 for line in first + rest)
        assert end[END_KEY]["end"] == "complete"
        assert sum(agents.attempts.values()) == 9

    run(main())


def test_ten_thousand_groups_through_the_real_collector() -> None:
    """Admitted = delivered + cancelled, while rollouts fail, the version rises, and readers come and go."""
    rng = random.Random(5)

    class Uneven(Agents):
        async def attempt(self, task: PlannedAttempt) -> Any:
            await asyncio.sleep(rng.lognormvariate(0.0, 1.0))
            if rng.random() < 0.05:
                return failure("engine_down", retryable=rng.random() < 0.5)
            return scored(task, reward=float(rng.random() < 0.5))

    async def main() -> None:
        given: dict[str, Any] = {
            "group_size": 2,
            "min_members": 1,
            "groups_per_step": 8,
            "num_samples_in_parallel": 64,
            "staleness": {"bound": 2, "of": "group", "then": "drop"},
            "useful": {"min_std": 0.01},
            "stop_after_identical_failures": 0,
            "max_waiting_tasks": 10_000,
        }
        out: Counter[str] = Counter()
        async with running(Uneven(), **given) as session:
            session.submit([task(number) for number in range(10_000)], ends=True)
            after, batch = -1, 0
            while True:
                lines = await read(session, 1, after=after)
                if END_KEY in lines[0]:
                    break
                (line,) = lines
                after = line["cursor"]
                out[line["key"]] += 1
                session.consume([line["cursor"]], session.book.version, refused=False)
                batch += "cancelled" not in line
                if batch == 8:
                    batch = 0
                    session.set_version(session.book.version + 1)
            counters = session.book.counters
            assert session.book.capacity.taken <= 8
        assert len(out) == 10_000
        assert set(out.values()) == {1}
        assert counters.admitted == counters.delivered + counters.cancelled.total()
        assert counters.oldest_consumed <= 2
        assert session._bytes == 0
        assert not session._rows

    run(main())


def test_a_full_queue_is_refused_for_now() -> None:
    async def main() -> None:
        async with running(Agents(seconds=9.0), max_waiting_tasks=2, num_samples_in_parallel=1) as session:
            session.submit([task(0), task(1)])
            with pytest.raises(InputError, match="2 tasks are waiting") as caught:
                session.submit([task(2)])
            assert caught.value.failure.http_status == 429
            assert caught.value.failure.retry_after_s
            with pytest.raises(InputError, match="3 tasks are more than"):
                session.submit([task(3), task(4), task(5)])
            session.submit([], ends=True)
            with pytest.raises(InputError, match="has ended"):
                session.submit([task(9)])
            assert session.submit([task(0)])["new"] == 0

    run(main())


def test_a_group_can_be_cancelled_and_requeued() -> None:
    async def main() -> None:
        agents = Agents(seconds=5.0)
        async with running(agents) as session:
            session.submit([task(0), task(1)])
            await asyncio.sleep(1)
            assert session.cancel("task 0", dry_run=True)["changes"]
            assert agents.in_flight == 4
            session.cancel("task 0")
            session.requeue("task 1")
            session.submit([], ends=True)
            *lines, _ = await read(session)
        assert [(line["key"], line["round"], line.get("cancelled")) for line in lines] == [
            ("task 0", 0, "asked"),
            ("task 1", 0, "asked"),
            ("task 1", 1, None),
        ]

    run(main())


def test_a_systemic_failure_ends_the_stream_with_its_reason() -> None:
    async def main() -> None:
        agents = Agents({number: always(failure("bad_key")) for number in range(50)})
        async with running(agents, stop_after_identical_failures=5, num_samples_in_parallel=2) as session:
            session.submit([task(number) for number in range(50)])
            *lines, end = await read(session)
        assert end[END_KEY]["end"] == "systemic_failure"
        assert len(lines) == 50, "every task comes out"
        assert {line["cancelled"] for line in lines} == {"too_few", "ended"}

    run(main())


def test_hopeless_sampling_ends_the_session() -> None:
    async def main() -> None:
        given: dict[str, Any] = {"useful": {"stop_at": 4, "max_oversampling": 3.0, "min_std": 0.1}}
        async with running(Agents(), **given) as session:
            session.submit([task(number) for number in range(50)])
            *_, end = await read(session)
        assert end[END_KEY]["stop"]["message"].startswith("3.0x sampled, 0 of 4 groups useful")

    run(main())


def test_rows_that_wait_for_a_reader_are_bounded_in_bytes() -> None:
    async def main() -> None:
        async def large(each: PlannedAttempt) -> Any:
            return scored(each, text="x" * (1 << 20))

        agents = Agents(dict.fromkeys(range(40), large))
        async with running(agents, max_unconsumed_mib=4, num_samples_in_parallel=2) as session:
            session.submit([task(number) for number in range(40)])
            await asyncio.sleep(60)
            assert sum(agents.attempts.values()) < 12
            assert session.describe()["unconsumed_bytes"] > 4 << 20

    run(main())


def test_a_pause_starts_nothing() -> None:
    async def main() -> None:
        agents = Agents(seconds=1.0)
        async with running(agents) as session:
            from nemo_gym.rollouts.control.verbs import ControlRequest, ControlVerb

            await session.control.handle(ControlVerb.PAUSE, ControlRequest())
            session.submit([task(0)], ends=True)
            await asyncio.sleep(100)
            assert not agents.attempts
            assert session.describe()["waits_for"] == "resume"
            await session.control.handle(ControlVerb.RESUME, ControlRequest())
            assert len(await read(session)) == 2

    run(main())
