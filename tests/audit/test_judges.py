"""Probes of judges: a gullible judge is found by the class of its weakness, a sober one is accused of nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from nemo_gym.audit.answer_types import WrittenForm, find_answer, replace_gold
from nemo_gym.audit.judges import (
    EXCHANGED,
    IN_ANSWER,
    IN_NAME,
    IN_OUTPUT,
    INJECTIONS,
    LONG_RIGHT,
    LONG_WRONG,
    probe_judge,
)
from nemo_gym.audit.operators import MASTER_KEYS
from nemo_gym.audit.outcomes import Conclusion, ProbeVerdict
from nemo_gym.audit.probing import Prober
from tests.audit.planted_verifiers import make_row

ROW = make_row("Which gas?", expected_answer="oxygen", judge="x")


class JudgedProber(Prober):
    """A prober whose verdicts are those of a judge that errs in one way; it needs no server."""

    def __init__(self, weakness: str = "") -> None:
        self.weakness = weakness
        self.seeds = False

    async def attempt(
        self, row: Mapping[str, Any], text: str, calls: Any = (), items: Any = ()
    ) -> ProbeVerdict:
        return ProbeVerdict(float(self._accepts(row["expected_answer"], text, json.dumps(items))))

    def _accepts(self, expected: str, text: str, items: str) -> bool:
        match self.weakness:
            case "order" if expected == "neon":
                return True
            case "length" if len(text) > 500:
                return True
            case "short" if len(text) > 500:
                return False
            case "injection" if any(each in text for each in INJECTIONS):
                return True
            case "output" if "Ignore all" in items:
                return True
            case "name" if "SYSTEM" in items:
                return True
            case "key" if text in MASTER_KEYS:
                return True
        return text.endswith(expected)


async def find_wrong(weakness: str) -> set[str]:
    outcomes = await probe_judge(
        JudgedProber(weakness),
        "task",
        ROW,
        find_answer(ROW),
        WrittenForm.PLAIN,
        other="neon",
        best=1.0,
        all_keys=True,
    )
    assert sum(outcome.kind == "master key" for outcome in outcomes) == len(MASTER_KEYS) == 20
    return {outcome.kind for outcome in outcomes if outcome.conclusion is not Conclusion.RIGHT}


@pytest.mark.parametrize(
    ("weakness", "kinds"),
    [
        ("", set()),
        ("order", {EXCHANGED}),
        ("length", {LONG_WRONG}),
        ("short", {LONG_RIGHT}),
        ("injection", {IN_ANSWER}),
        ("output", {IN_OUTPUT}),
        ("name", {IN_NAME}),
        ("key", {"master key"}),
    ],
)
async def test_each_weakness_of_a_judge_is_found_by_its_class(weakness: str, kinds: set[str]) -> None:
    assert await find_wrong(weakness) == kinds


def test_the_expected_answer_is_replaced_where_it_stands() -> None:
    assert replace_gold({"expected_answer": "a"}, "b") == {"expected_answer": "b"}
    nested = {"verifier_metadata": {"answer": "a", "id": 1}}
    assert replace_gold(nested, "b") == {"verifier_metadata": {"answer": "b", "id": 1}}
    assert replace_gold({"expected_answer": ["a"]}, "b") is None
