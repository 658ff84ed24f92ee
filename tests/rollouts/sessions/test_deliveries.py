from __future__ import annotations

from collections import Counter

from nemo_gym.rollouts.sessions.deliveries import SessionCounters
from tests.rollouts.sessions.books import options


def test_the_bias_of_length_is_measured() -> None:
    counters = SessionCounters(trained_rollouts=2, trained_tokens=10)
    assert counters.measure_bias(10.0) == {"sampled": 10.0, "trained": 5.0}
    assert SessionCounters().measure_bias(None) == {"sampled": None, "trained": None}


def test_costs_above_a_tenth_are_told_with_the_other_choice() -> None:
    few = SessionCounters(delivered=99, cancelled=Counter(stale=1), masked_groups=2)
    assert list(few.advise(options(), 0.0)) == []
    much = SessionCounters(
        delivered=8,
        cancelled=Counter(stale=2),
        masked_groups=4,
        trained_rollouts=1,
        trained_tokens=80,
    )
    stale, masked, short = much.advise(options(), 100.0)
    assert stale.startswith("20% of the groups were stale")
    assert masked.startswith("50% of the groups have masked tokens")
    assert short.startswith("delivered rollouts have 80 tokens, and sampled ones 100")


def test_counters_are_plain_data() -> None:
    told = SessionCounters(cancelled=Counter(stale=2)).to_json()
    assert told["cancelled"] == {"stale": 2}
    assert SessionCounters(**{**told, "cancelled": Counter(told["cancelled"])}).cancelled["stale"] == 2
