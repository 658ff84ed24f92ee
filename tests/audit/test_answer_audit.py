from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from nemo_gym.audit.answer_audit import (
    CHANGED,
    DECLARED,
    ELSEWHERE,
    GOLD,
    NOTHING,
    OMISSION,
    RowProbes,
    settle_gold,
)
from nemo_gym.audit.gold_scripts import GoldScript
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.audit.probing import Prober
from nemo_gym.testing import read_rows
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.moving_caller import build_caller
from resources_servers.workplace_assistant.app import WorkplaceServer
from tests.audit.planted_verifiers import NUMBERS, is_number, make_row, open_gym


async def probe(verify: Any, row: Any, scripts: Sequence[GoldScript] = ()) -> dict[str, list[ProbeOutcome]]:
    gym, caller = open_gym(verify)
    async with gym.running():
        probes = RowProbes(Prober(caller, "planted"), 0, scripts=scripts)
        outcomes = await probes.probe("t", row)
    return {
        kind: [each for each in outcomes if each.kind == kind] for kind in {each.kind for each in outcomes}
    }


async def test_the_form_in_which_gold_is_accepted_is_that_of_all_attempts() -> None:
    found = await probe(lambda text, row: text == f"<answer>{row['expected_answer']}</answer>", NUMBERS[1])
    assert found[GOLD][0].conclusion is Conclusion.RIGHT
    assert found["one more"][0].probe == "<answer>74</answer>"


async def test_without_an_accepted_gold_nothing_else_must_be_accepted() -> None:
    found = await probe(lambda text, row: False, NUMBERS[1])
    assert found[GOLD][0].conclusion is Conclusion.FALSE_REJECT
    assert "gold in German" not in found
    assert found["empty"][0].conclusion is Conclusion.RIGHT


SPOKEN = GoldScript("", [], "Said in my own words.")


@pytest.mark.parametrize(
    "row",
    [
        NUMBERS[0],
        make_row("Which?", expected_answer="A", options=[{"A": "red"}, {"B": "blue"}]),
        make_row("Which word?", expected_answer="Lima"),
        make_row("Which object?", expected={"a": 1}),
        make_row("Query?", sql="SELECT 1"),
        make_row("Do it.", ground_truth=[{"name": "absent", "arguments": {}}]),
        make_row("Anything?"),
        make_row("Which type?", expected_answer="Lima", answer_type="unknown"),
    ],
)
async def test_a_declared_right_attempt_is_sent_whatever_the_type_of_the_answer(row: Any) -> None:
    for is_accepted in (True, False):
        found = await probe(lambda text, row: (text == SPOKEN.text) is is_accepted, row, [SPOKEN])  # noqa: B023
        (outcome,) = found[DECLARED]
        assert outcome.probe == SPOKEN.text
        assert outcome.conclusion is (Conclusion.RIGHT if is_accepted else Conclusion.FALSE_REJECT)
        assert settle_gold([outcome]) == [outcome]


async def test_a_declared_right_attempt_is_sent_without_a_judge() -> None:
    gym, caller = open_gym(lambda text, row: False)
    async with gym.running():
        probes = RowProbes(Prober(caller, "planted"), 0, scripts=[SPOKEN])
        with_answer = await probes.probe_without_judge("t", NUMBERS[0])
        without_answer = await probes.probe_without_judge("t", make_row("Anything?"))
    assert [each.probe for each in with_answer] == ["\\boxed{1319}", SPOKEN.text]
    assert [each.probe for each in without_answer] == [SPOKEN.text]
    assert {each.conclusion for each in (*with_answer, *without_answer)} == {Conclusion.FALSE_REJECT}


async def test_a_state_environment_is_probed_with_its_expected_calls() -> None:
    gym = InProcessGym()
    gym.add(WorkplaceServer, "office")
    rows = read_rows("resources_servers/workplace_assistant/data/example.jsonl")
    async with gym.running():
        probes = RowProbes(Prober(build_caller(gym.config, gym.transport, None), "office"), 0)
        outcomes = [each for row in rows[:2] for each in await probes.probe("t", row)]
    assert {GOLD, NOTHING, ELSEWHERE} <= {each.kind for each in outcomes} <= {
        GOLD, NOTHING, ELSEWHERE, OMISSION, CHANGED, "empty", "I do not know",
    }  # fmt: skip
    assert {each.conclusion for each in outcomes} == {Conclusion.RIGHT}


async def test_a_judge_that_is_down_must_be_a_failure() -> None:
    gym, caller = open_gym(lambda text, row: False)
    async with gym.running():
        (outcome,) = await RowProbes(Prober(caller, "planted"), 0).probe_without_judge("t", NUMBERS[0])
    assert outcome.conclusion is Conclusion.FALSE_REJECT
    _, caller = open_gym(is_number)
    (outcome,) = await RowProbes(Prober(caller, "gone"), 0).probe_without_judge("t", NUMBERS[0])
    assert outcome.conclusion is Conclusion.RIGHT


def test_many_rejected_golds_are_the_audits_doubt() -> None:
    def gold(conclusion: Conclusion) -> ProbeOutcome:
        return ProbeOutcome("t", GOLD, Right.ACCEPT, conclusion, 0.0)

    few = [gold(Conclusion.RIGHT)] * 9 + [gold(Conclusion.FALSE_REJECT)]
    many = [gold(Conclusion.RIGHT)] * 5 + [gold(Conclusion.FALSE_REJECT)] * 5
    assert settle_gold(few) == few
    assert settle_gold(many)[-1].conclusion is Conclusion.UNDECIDED
