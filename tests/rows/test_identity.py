"""Identities of rollouts, and the set of those that are done."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.rows.identity import (
    FinishedRollouts,
    RolloutId,
    find_indices,
    identity_at,
    identity_in,
    mark_code,
    name_attempt,
    read_attempt,
    read_repeat,
    read_task_index,
    replace_identity,
)

ids = st.builds(RolloutId, st.integers(0, 10**12), st.integers(0, 200))


@given(ids)
def test_a_leading_identity_is_read_without_parsing_the_row(identity: RolloutId) -> None:
    line = identity.head() + b'"reward":1.0}'
    assert identity_at(line) == identity
    assert identity_in(orjson.loads(line)) == identity


def test_a_row_without_a_leading_identity_needs_parsing() -> None:
    assert identity_at(b'{"reward":1.0,"_ng_task_index":1,"_ng_rollout_index":2}') is None
    assert identity_in({"_ng_task_index": 1}) is None


@given(st.lists(ids))
def test_the_set_of_finished_rollouts_is_a_set(given_ids: list[RolloutId]) -> None:
    finished = FinishedRollouts()
    fresh = [finished.add(identity) for identity in given_ids]
    assert fresh == [identity not in given_ids[:place] for place, identity in enumerate(given_ids)]
    assert len(finished) == len(set(given_ids))
    assert all(identity in finished for identity in given_ids)
    assert RolloutId(10**13, 0) not in finished


@given(st.lists(ids))
def test_the_last_is_the_highest(given_ids: list[RolloutId]) -> None:
    finished = FinishedRollouts()
    for identity in given_ids:
        finished.add(identity)
    assert finished.last() == max(given_ids, default=RolloutId(-1, -1))


@given(ids, ids)
def test_a_row_is_given_another_identity_byte_by_byte(before: RolloutId, after: RolloutId) -> None:
    rest = b'"reward":1.0,"text":"\\ud800","n":12345678901234567890123}'
    assert replace_identity(before.head() + rest, before, after) == after.head() + rest
    older = b'{"_ng_task_index":%d,"_ng_rollout_index":%d,' % before + rest
    assert (
        replace_identity(older, before, after)
        == b'{"_ng_task_index":%d,"_ng_rollout_index":%d,' % after + rest
    )
    assert replace_identity(b'{"reward":1.0}', before, after) is None
    assert replace_identity(RolloutId(before.task + 1, before.repeat).head() + rest, before, after) is None


def test_an_attempt_has_a_name_of_its_own() -> None:
    assert name_attempt({"_ng_task_index": 3, "_ng_rollout_index": 1}) == "3-1"
    assert name_attempt({"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_attempt_index": 2}) == "3-1-a2"
    assert name_attempt({"_ng_rollout_id": "mine", "_ng_attempt_index": 1}) == "mine-a1"
    assert name_attempt({"_ng_task_index": 3}) is None


def test_indices_are_found_anywhere_and_odd_ones_are_left_out() -> None:
    text = b'{"a":1,"_ng_rollout_index":4,"_ng_task_index":3}'
    assert find_indices(text) == {"_ng_rollout_index": 4, "_ng_task_index": 3}
    assert (read_task_index({}), read_repeat({}), read_attempt({})) == (None, 0, 0)
    odd = {"_ng_task_index": "3", "_ng_rollout_index": None, "_ng_attempt_index": 1.5}
    assert (read_task_index(odd), read_repeat(odd), read_attempt(odd)) == (None, 0, 0)


@given(ids)
def test_the_digest_of_the_code_is_noted_once_behind_the_identity(identity: RolloutId) -> None:
    line = identity.head() + b'"reward":1.0}'
    marked = mark_code(line, "ab12")
    assert orjson.loads(marked) == {**orjson.loads(line), "_ng_scored_by": "ab12"}
    assert (identity_at(marked), mark_code(marked, "cd34")) == (identity, marked)
    assert mark_code(b'{"reward":1.0}', "ab12") == b'{"_ng_scored_by":"ab12","reward":1.0}'
