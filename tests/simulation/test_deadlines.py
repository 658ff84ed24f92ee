from __future__ import annotations

from simulation import draw
from simulation.deadlines import DeadlinesAreKept, InterruptedRunsEnd, NoOrphanedWork
from simulation.events import AttemptId, Event, Kind, Sent
from simulation.faults import AGENT, ASK, ENGINE, GENERATE, MODEL, RUN, Place
from simulation.monitor import Invariant

SCENARIO = draw(0)
LIMIT_S = SCENARIO.rollout_timeout_s
ATTEMPT = AttemptId(0, 0, 0, 0)


def event(at: float, kind: Kind, place: Place, call: int, deadline_s: float | None = None) -> Event:
    detail = Sent("caller", *place, deadline_s, 0) if kind is Kind.SENT else None
    return Event(at, kind, " ".join(place), ATTEMPT, call, detail)


def problems(invariant: Invariant, *events: Event) -> list[str]:
    return [problem for problem in map(invariant.observe, events) if problem is not None]


def begun(propagated_s: float = LIMIT_S - 2.0) -> tuple[Event, Event]:
    """An attempt that the agent has, since second 1."""
    return event(0.0, Kind.SENT, RUN, 1, propagated_s), event(1.0, Kind.BEGUN, RUN, 1)


def test_an_attempt_that_ends_in_time_keeps_its_deadline() -> None:
    asked = event(2.0, Kind.SENT, ASK, 2, LIMIT_S - 3.0), event(3.0, Kind.SENT, GENERATE, 3)
    assert not problems(DeadlinesAreKept(SCENARIO), *begun(), *asked, event(LIMIT_S, Kind.ANSWERED, RUN, 1))


def test_an_attempt_that_takes_too_long_does_not() -> None:
    (problem,) = problems(DeadlinesAreKept(SCENARIO), *begun(), event(LIMIT_S + 1.0, Kind.ANSWERED, RUN, 1))
    assert "are allowed" in problem


def test_a_repeated_run_call_propagates_no_more_than_the_remaining_time() -> None:
    refused = event(0.0, Kind.SENT, RUN, 1, LIMIT_S), event(10.0, Kind.BROKEN, RUN, 1)
    assert problems(DeadlinesAreKept(SCENARIO), event(0.0, Kind.SENT, RUN, 1))
    assert problems(DeadlinesAreKept(SCENARIO), *refused, event(10.0, Kind.SENT, RUN, 2, LIMIT_S))
    assert not problems(DeadlinesAreKept(SCENARIO), *refused, event(10.0, Kind.SENT, RUN, 2, LIMIT_S - 10.0))


def test_every_call_propagates_the_remaining_time() -> None:
    def of_call(deadline_s: float | None) -> list[str]:
        return problems(DeadlinesAreKept(SCENARIO), *begun(), event(11.0, Kind.SENT, ASK, 2, deadline_s))

    assert not of_call(LIMIT_S - 12.0)
    assert "without the deadline" in of_call(None)[0]
    assert "were left" in of_call(LIMIT_S - 2.0)[0]


def test_no_call_starts_after_the_deadline() -> None:
    late = event(LIMIT_S - 0.5, Kind.SENT, GENERATE, 2)
    (problem,) = problems(DeadlinesAreKept(SCENARIO), *begun(), late)
    assert "after the deadline" in problem


def test_work_goes_on_while_its_caller_waits() -> None:
    working = event(0.0, Kind.BEGUN, ASK, 2), event(1.0, Kind.BEGUN, GENERATE, 3)
    assert not problems(NoOrphanedWork(), *working, event(900.0, Kind.ANSWERED, GENERATE, 3))


def test_a_handler_has_a_second_to_end_after_its_caller_has_gone() -> None:
    working = event(0.0, Kind.BEGUN, ASK, 2), event(5.0, Kind.LEFT, ASK, 2)
    ended = event(5.9, Kind.DONE, ASK, 2), event(60.0, Kind.SENT, RUN, 9)
    assert not problems(NoOrphanedWork(), *working, *ended)
    (problem,) = problems(NoOrphanedWork(), *working, event(6.2, Kind.SENT, RUN, 9))
    assert problem.startswith(f"{MODEL} /v1/responses (call 2) still works 1.2 s")


def test_a_request_that_outlives_its_sender_on_the_way_is_given_its_second_too() -> None:
    left = event(1.0, Kind.LEFT, GENERATE, 3), event(50.0, Kind.BEGUN, GENERATE, 3)
    assert not problems(NoOrphanedWork(), *left, event(50.9, Kind.DONE, GENERATE, 3))
    assert problems(NoOrphanedWork(), *left, event(51.2, Kind.DONE, ASK, 99))


def test_the_end_of_an_attempt_ends_all_work_for_it() -> None:
    working = (
        event(0.0, Kind.BEGUN, RUN, 1),
        event(1.0, Kind.BEGUN, GENERATE, 3),
        event(2.0, Kind.LEFT, RUN, 1),
    )
    engine, agent = problems(
        NoOrphanedWork(), *working, event(3.2, Kind.UP, RUN, 0), event(4.0, Kind.DONE, GENERATE, 3),
        event(9.0, Kind.UP, RUN, 0),
    )  # fmt: skip
    assert engine.startswith(ENGINE)
    assert agent.startswith(AGENT)


def interrupted(at: float) -> Event:
    return Event(at, Kind.INTERRUPTED, "collector")


def over(at: float) -> Event:
    return Event(at, Kind.ENDED, "collector")


def test_an_interrupted_run_has_its_few_seconds() -> None:
    under_way = begun()[0]
    assert not problems(InterruptedRunsEnd(), under_way, interrupted(10.0), over(15.9), over(60.0))
    assert problems(InterruptedRunsEnd(), under_way, interrupted(10.0), over(16.2))


def test_a_run_that_is_interrupted_twice_ends_at_once() -> None:
    under_way = begun()[0]
    assert not problems(InterruptedRunsEnd(), under_way, interrupted(10.0), interrupted(11.0), over(11.9))
    assert problems(InterruptedRunsEnd(), under_way, interrupted(10.0), interrupted(11.0), over(12.2))


def test_a_run_that_still_looks_whether_the_servers_are_there_may_finish_looking() -> None:
    assert not problems(InterruptedRunsEnd(), interrupted(0.0), interrupted(0.0), over(6.9))
    assert problems(InterruptedRunsEnd(), interrupted(0.0), interrupted(0.0), over(20.0))
