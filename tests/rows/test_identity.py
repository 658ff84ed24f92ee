"""Identities of rollouts, and the set of those that are done."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.rows.identity import FinishedRollouts, RolloutId, identity_at, identity_in

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
