from __future__ import annotations

from dataclasses import replace

from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.audit.universal import UNIVERSAL, draw_universal_answers, is_own_answer, settle_universal


def try_answer(task: int, probe: str, *, wins: bool) -> ProbeOutcome:
    conclusion = Conclusion.FALSE_ACCEPT if wins else Conclusion.RIGHT
    return ProbeOutcome(f"t{task}", UNIVERSAL, Right.REJECT, conclusion, float(wins), probe)


def test_an_answer_that_wins_many_tasks_is_accused_and_one_win_is_a_doubt() -> None:
    outcomes = [try_answer(task, "nan", wins=task < 3) for task in range(20)]
    outcomes += [try_answer(task, "x", wins=task == 0) for task in range(20)]
    settled = settle_universal(outcomes)
    assert [each.conclusion for each in settled[:4]] == [Conclusion.FALSE_ACCEPT] * 3 + [Conclusion.RIGHT]
    assert settled[0].reason == "it wins 3 of 20 tasks"
    assert settled[20].conclusion is Conclusion.UNDECIDED


def test_where_no_answer_is_known_it_must_win_half_of_the_tasks() -> None:
    outcomes = [try_answer(task, "nan", wins=task < 3) for task in range(20)]
    unsure = [replace(each, conclusion=Conclusion.UNDECIDED) if each.reward else each for each in outcomes]
    assert settle_universal(unsure)[0].conclusion is Conclusion.UNDECIDED
    assert settle_universal(unsure[:6])[0].conclusion is Conclusion.FALSE_ACCEPT


def test_the_same_answers_are_drawn_for_a_seed() -> None:
    assert draw_universal_answers(40, 1) == draw_universal_answers(40, 1) != draw_universal_answers(40, 2)
    assert len(set(draw_universal_answers(40, 1))) == 40
    assert "nan" in draw_universal_answers(40, 3)


def test_a_tasks_own_answer_in_another_spelling_is_not_universal() -> None:
    assert is_own_answer(["0.0"], "0")
    assert not is_own_answer(["7"], "0")
