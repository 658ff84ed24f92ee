from __future__ import annotations

from collections.abc import Sequence
from math import comb, fsum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.audit.card import Rate, build_card, measure_rate
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right


def reject(task: int, conclusion: Conclusion = Conclusion.RIGHT, kind: str = "nothing") -> ProbeOutcome:
    return ProbeOutcome(f"t{task}", kind, Right.REJECT, conclusion, 0.0, "0", seconds=0.01)


def test_no_error_in_150_tasks_shows_less_than_two_per_cent() -> None:
    card = build_card("mcqa", [reject(task) for task in range(150)], seed=3)
    assert card.is_enough
    assert card.false_accepts.upper < 0.02
    assert not build_card("mcqa", [reject(task) for task in range(149)], seed=3).is_enough


def find_upper_bound(wrong: int, tasks: int) -> float:
    """Return the rate at which `wrong` or fewer of `tasks` have a chance of 5 %, from the binomial sum itself."""
    low, high = 0.0, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        tail = fsum(comb(tasks, k) * rate**k * (1 - rate) ** (tasks - k) for k in range(wrong + 1))
        low, high = (rate, high) if tail > 0.05 else (low, rate)
    return high


def make_verdicts(sizes: Sequence[int], wrong: Sequence[int]) -> list[ProbeOutcome]:
    """Return outcomes of `sizes[i]` probes of task i, of which the first `wrong[i]` are false accepts."""
    return [
        reject(task, Conclusion.FALSE_ACCEPT if place < wrong[task] else Conclusion.RIGHT)
        for task, size in enumerate(sizes)
        for place in range(size)
    ]


@pytest.mark.parametrize("probes_each", [1, 7, 100])
@pytest.mark.parametrize("wrong_tasks", [0, 1, 3, 150])
def test_many_probes_of_one_task_count_as_little_as_the_task(probes_each: int, wrong_tasks: int) -> None:
    wrong = [probes_each] * wrong_tasks + [0] * (150 - wrong_tasks)
    rate = measure_rate(make_verdicts([probes_each] * 150, wrong))
    expected = find_upper_bound(wrong_tasks, 150) if wrong_tasks < 150 else 1.0
    assert (rate.probes, rate.tasks) == (150 * probes_each, 150)
    assert rate.upper == pytest.approx(expected, abs=1e-9)


def test_a_planted_bug_at_one_probe_does_not_tighten_the_bound() -> None:
    sizes = [54] * 20 + [11] * 130  # universal answers are tried at the first twenty tasks
    bounds = [measure_rate(make_verdicts(sizes, [bugs] + [0] * 149)).upper for bugs in range(12)]
    assert bounds == sorted(bounds)
    assert bounds[0] == pytest.approx(find_upper_bound(0, 150), abs=1e-9)
    assert bounds[0] < bounds[1] < find_upper_bound(1, 150)


def test_a_task_with_many_probes_counts_once() -> None:
    rate = measure_rate(make_verdicts([100, 1, 1, 1], [100, 0, 0, 0]))
    assert (rate.wrong, rate.probes, rate.value) == (100, 103, 0.25)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("tasks", [5, 40])
def test_the_bound_holds_in_19_of_20_audits(tasks: int, share: float) -> None:
    """A task has `share` of its probes wrong with a chance q, so the true rate is `share` * q."""
    bounds = [Rate(10 * tasks, 0, tasks, share * bad / tasks).upper for bad in range(tasks + 1)]
    for q in (place / 50 for place in range(1, 50)):
        chances = [comb(tasks, bad) * q**bad * (1 - q) ** (tasks - bad) for bad in range(tasks + 1)]
        held = fsum(
            chance for chance, bound in zip(chances, bounds, strict=True) if bound >= share * q - 1e-12
        )
        assert held >= 0.95 - 1e-9


sized = st.lists(st.integers(1, 30), min_size=1, max_size=40)


@given(sized, st.data())
def test_one_more_wrong_verdict_never_makes_the_interval_lower_or_tighter(
    sizes: list[int], data: st.DataObject
) -> None:
    wrong = [data.draw(st.integers(0, size)) for size in sizes]
    before = measure_rate(make_verdicts(sizes, wrong))
    assert before.interval[0] <= before.value <= before.interval[1]
    worse = [place for place, size in enumerate(sizes) if wrong[place] < size]
    if worse:
        wrong[data.draw(st.sampled_from(worse))] += 1
        after = measure_rate(make_verdicts(sizes, wrong))
        assert after.value > before.value
        assert after.upper >= before.upper
        assert after.interval[0] >= before.interval[0]


@pytest.mark.parametrize("unknown", [Conclusion.UNDECIDED, Conclusion.FAILED])
def test_a_task_without_a_decided_verdict_tells_nothing(unknown: Conclusion) -> None:
    decided = make_verdicts([3] * 9, [0] * 9)
    with_doubt = [*decided, *(reject(9, unknown) for _ in range(50))]
    assert measure_rate(with_doubt) == measure_rate(decided)
    assert measure_rate([reject(0, unknown)]).interval == (0.0, 1.0)


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
