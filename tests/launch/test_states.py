from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.launch._states import TERMINAL_STATES, TRANSITIONS, DeathRecord, RestartPolicy, ServerState
from nemo_gym.names import CANNOT_START


def test_every_state_has_its_transitions_and_two_are_terminal() -> None:
    assert set(TRANSITIONS) == set(ServerState)
    assert {ServerState.STOPPED, ServerState.FAILED} == TERMINAL_STATES


def test_a_terminal_state_can_be_reached_from_every_other() -> None:
    for state in set(ServerState) - TERMINAL_STATES:
        reached, frontier = {state}, {state}
        while frontier:
            frontier = {after for each in frontier for after in TRANSITIONS[each]} - reached
            reached |= frontier
        assert ServerState.STOPPED in reached


@given(deaths=st.integers(1, 5000))
def test_delays_grow_up_to_the_longest(deaths: int) -> None:
    policy = RestartPolicy()
    delay_s, next_s = (DeathRecord(policy, number).delay_s for number in (deaths, deaths + 1))
    assert policy.first_delay_s <= delay_s <= next_s <= policy.longest_delay_s


def test_three_deaths_in_a_row_before_the_first_answer_are_hopeless() -> None:
    record = DeathRecord(RestartPolicy(deaths_at_start=3))
    record.count_death(ready_for_s=None)
    record.count_death(ready_for_s=None)
    assert not record.is_hopeless
    record.count_death(ready_for_s=None)
    assert record.is_hopeless


def test_one_death_is_enough_if_code_or_configuration_has_to_be_corrected() -> None:
    record = DeathRecord(RestartPolicy())
    record.count_death(ready_for_s=None, exit_code=CANNOT_START)
    assert record.has_to_be_corrected
    record.count_death(ready_for_s=None, exit_code=1)
    assert not record.has_to_be_corrected
    record.count_death(ready_for_s=3.0, exit_code=CANNOT_START)
    assert not record.has_to_be_corrected


def test_a_program_that_ends_without_serving_is_not_started_again() -> None:
    record = DeathRecord(RestartPolicy())
    record.count_death(ready_for_s=None, exit_code=0)
    assert (record.has_to_be_corrected, record.has_ended) == (True, True)
    record.count_death(ready_for_s=3.0, exit_code=0)
    assert (record.has_to_be_corrected, record.has_ended) == (False, False)


def test_an_answer_resets_the_deaths_at_start() -> None:
    record = DeathRecord(RestartPolicy(deaths_at_start=2))
    record.count_death(ready_for_s=None)
    record.count_death(ready_for_s=0.1)
    record.count_death(ready_for_s=None)
    assert not record.is_hopeless
    assert record.deaths == 3


def test_a_steady_server_restarts_with_the_first_delay() -> None:
    policy = RestartPolicy(first_delay_s=1, steady_after_s=60)
    record = DeathRecord(policy)
    for _ in range(3):
        record.count_death(ready_for_s=5)
    assert record.delay_s == 4
    record.count_death(ready_for_s=61)
    assert record.delay_s == 1
