from __future__ import annotations

import itertools
from collections import Counter

from nemo_gym.audit.behaviour import AGAIN, REVERSED, KnownVerdict, compare_again, probe_behaviour
from nemo_gym.audit.probing import Prober
from tests.audit.planted_verifiers import NUMBERS, is_number, open_gym

KNOWN = [
    KnownVerdict(f"t{at}", row, f"\\boxed{{{row['expected_answer']}}}", 1.0) for at, row in enumerate(NUMBERS)
]


async def test_a_steady_verifier_never_flips() -> None:
    gym, caller = open_gym(is_number)
    async with gym.running():
        outcomes = await probe_behaviour(Prober(caller, "planted"), KNOWN)
    counts = Counter(each.kind for each in outcomes)
    assert counts == {AGAIN: 80, REVERSED: 6, "16 at once": 16, "128 at once": 128}
    assert {each.conclusion for each in outcomes} == {"right"}


async def test_a_verifier_with_a_memory_flips() -> None:
    turns = itertools.count()
    gym, caller = open_gym(lambda text, row: is_number(text, row) and next(turns) != 5)
    async with gym.running():
        outcomes = await probe_behaviour(Prober(caller, "planted"), KNOWN)
    (flip,) = [each for each in outcomes if each.conclusion == "flip"]
    assert flip.reason == "the reward was 1 before"


async def test_a_failure_is_no_flip() -> None:
    _, caller = open_gym(is_number)
    outcomes = await compare_again(Prober(caller, "other"), KNOWN[:1], "x")
    assert [each.conclusion for each in outcomes] == ["failed"]
