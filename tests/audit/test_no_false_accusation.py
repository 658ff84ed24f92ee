"""Environments without a fault are accused of nothing, and few of their probes stay undecided."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from nemo_gym.audit.environment import AuditSettings, EnvironmentAudit
from nemo_gym.audit.outcomes import Conclusion
from tests.audit.planted_verifiers import Verify, is_letter, is_number, is_value, is_word, make_row, open_gym

PROBES = 10_000 if "NEMO_GYM_TEST_WHOLE" in os.environ else 1_500
COLOURS = [{"A": "red"}, {"B": "blue"}, {"C": "pink"}]


def make_numbers(count: int) -> list[dict[str, object]]:
    question = "Count to {}. Put the answer inside \\boxed{{}}."
    numbers = [(-1) ** at * (17 + 37 * at) for at in range(count)]
    return [make_row(question.format(number), expected_answer=str(number)) for number in numbers]


def make_choices(count: int) -> list[dict[str, object]]:
    question = "Which is number {}?\nA: red\nB: blue\nC: pink\nPut the letter inside \\boxed{{}}."
    return [
        make_row(question.format(at), expected_answer="ABC"[at % 3], options=COLOURS) for at in range(count)
    ]


def make_words(count: int) -> list[dict[str, object]]:
    return [
        make_row(
            f"Word {at} in \\boxed{{}}?",
            expected_answer=f"word{chr(97 + at % 26)} {at}",
            case_sensitive=False,
        )
        for at in range(count)
    ]


def make_values(count: int) -> list[dict[str, object]]:
    return [
        make_row(f"Write tree {at} as JSON.", expected={"name": f"tree {at}", "size": at})
        for at in range(count)
    ]


async def test_verifiers_without_a_fault_are_accused_of_nothing(tmp_path: Path) -> None:
    makers: dict[Verify, list[dict[str, object]]] = {}
    pairs: list[tuple[Verify, Callable[[int], list[dict[str, object]]]]] = [
        (is_number, make_numbers),
        (is_letter, make_choices),
        (is_word, make_words),
        (is_value, make_values),
    ]
    for verify, make in pairs:
        makers[verify] = make(PROBES // 100)
    conclusions: defaultdict[str, Counter[Conclusion]] = defaultdict(Counter)
    for number, (verify, rows) in enumerate(makers.items()):
        gym, caller = open_gym(verify)
        async with gym.running():
            audit = EnvironmentAudit("planted", "planted", rows, AuditSettings(tmp_path / str(number)))
            journal, _ = await audit.run(caller)
            card = audit.build_card(journal)
            journal.close()
        for each in card.classes:
            conclusions[each.kind].update(
                {Conclusion.RIGHT: each.rate.probes, Conclusion.UNDECIDED: each.undecided}
            )
            assert each.rate.wrong == 0, (verify, each.kind, each.examples)
            assert each.failed == 0
    assert sum(counts[Conclusion.RIGHT] for counts in conclusions.values()) >= PROBES
    for kind, counts in conclusions.items():
        assert counts[Conclusion.UNDECIDED] <= 0.1 * counts.total(), kind
