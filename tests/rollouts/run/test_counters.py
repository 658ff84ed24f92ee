"""The counters of a run."""

from __future__ import annotations

from nemo_gym.failures import Boundary, Failure, Outcome
from nemo_gym.rollouts.run.answer import Failed, Scored
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rows.forms import ScoredRow
from nemo_gym.rows.identity import RolloutId

TIMEOUT = Failed(Failure(Boundary.ENGINE, "timeout", "the engine is silent"), "engine:timeout")


def test_scores_and_failures_are_counted_apart() -> None:
    counters = RunCounters(planned=10, finished_before=4, discarded=1)
    assert counters.mean_rewards == {}
    for reward, outcome in ((1.0, Outcome.COMPLETED), (0.0, Outcome.TRUNCATED)):
        counters.note_scored("a", Scored(ScoredRow({"_ng_end_reason": "max_steps"}), b"", reward, outcome))
    counters.note_failed(RolloutId(0, 0), TIMEOUT)
    counters.note_failed(RolloutId(1, 0), TIMEOUT)
    assert (counters.completed, counters.truncated, counters.scored, counters.failed) == (1, 1, 2, 2)
    assert counters.settled == 4 + 2 + 2 + 1
    assert counters.mean_rewards == {"a": 0.5}, "a failure is no score"
    assert counters.failures == {"engine:timeout": 2}
    assert [group.count for group in counters.failure_groups.rank_groups()] == [2]
    assert counters.truncations == {"max_steps": 1}


def test_the_mean_of_equal_rewards_is_their_value() -> None:
    counters = RunCounters(planned=300)
    for _ in range(300):
        counters.note_scored("a", Scored(ScoredRow({}), b"", 0.1, Outcome.COMPLETED))
    assert counters.mean_rewards == {"a": 0.1}
