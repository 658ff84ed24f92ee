from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.audit.card import build_card, measure_rate
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right


def reject(task: int, conclusion: Conclusion = Conclusion.RIGHT, kind: str = "nothing") -> ProbeOutcome:
    return ProbeOutcome(f"t{task}", kind, Right.REJECT, conclusion, 0.0, "0", seconds=0.01)


def test_no_error_in_150_tasks_shows_less_than_two_per_cent() -> None:
    card = build_card("mcqa", [reject(task) for task in range(150)], seed=3)
    assert card.is_enough
    assert card.false_accepts.upper < 0.02
    assert not build_card("mcqa", [reject(task) for task in range(149)], seed=3).is_enough


def test_many_probes_of_one_task_count_as_little_as_the_task() -> None:
    rate = measure_rate([reject(task) for task in range(10) for _ in range(100)])
    assert (rate.probes, rate.effective) == (1000, 10)
    half = measure_rate(
        [
            reject(task, Conclusion.FALSE_ACCEPT if task % 2 else Conclusion.RIGHT)
            for task in range(10)
            for _ in range(9)
        ]
    )
    assert half.value == 0.5
    assert half.effective == pytest.approx(9, abs=1.5)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=200))
def test_the_interval_has_the_rate_in_it_and_is_never_narrower_than_of_independent_probes(
    verdicts: list[tuple[int, bool]],
) -> None:
    rate = measure_rate(
        reject(task, Conclusion.FALSE_ACCEPT if wrong else Conclusion.RIGHT) for task, wrong in verdicts
    )
    low, high = rate.interval
    assert low <= rate.value <= high
    assert rate.effective <= rate.probes


def test_the_worst_class_comes_first_and_doubts_do_not_count() -> None:
    outcomes = [
        *(reject(task, kind="clean") for task in range(20)),
        *(
            reject(task, Conclusion.FALSE_ACCEPT if task < 10 else Conclusion.RIGHT, "bad")
            for task in range(20)
        ),
        *(reject(task, Conclusion.UNDECIDED, "doubtful") for task in range(20)),
    ]
    card = build_card("mcqa", outcomes, seed=0)
    assert [each.kind for each in card.classes] == ["bad", "doubtful", "clean"]
    doubtful = card.classes[1]
    assert (doubtful.rate.probes, doubtful.undecided) == (0, 20)
    assert len(card.classes[0].examples) == 3


def test_a_small_card_claims_nothing(tmp_path: Path) -> None:
    card = build_card("mcqa", [reject(0, Conclusion.FALSE_ACCEPT), reject(1)], seed=5, notes=["sampled"])
    text = "\n".join(card.write_markdown())
    assert "Not enough: 2 tasks" in text
    assert "50.00%" not in text
    assert "corrections of noisy rewards" in text
    assert "false accept, t0, reward 0: `0`" in text
    card.write(tmp_path)
    assert (tmp_path / "card.md").read_text().startswith("# Audit of mcqa")
    assert '"enough": false' in (tmp_path / "card.json").read_text()


def test_the_table_has_the_time_of_verify_with_its_tail() -> None:
    card = build_card("mcqa", [reject(task) for task in range(200)], seed=0)
    assert card.seconds == {"median": 0.01, "p99": 0.01, "longest": 0.01}
    assert any(line.startswith("nothing") for line in card.write_text())
