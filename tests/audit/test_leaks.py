from __future__ import annotations

from nemo_gym.audit.answer_types import AnswerType, ExpectedAnswer
from nemo_gym.audit.leaks import find_leak
from nemo_gym.audit.outcomes import Conclusion

GOLD = ExpectedAnswer(AnswerType.TEXT, "drawer three", ("drawer three",))
ROW = {"responses_create_params": {"input": "Where?", "tools": [{"name": "open", "description": "Try all."}]}}


def test_an_answer_in_the_seeded_session_or_a_tool_is_a_leak() -> None:
    clean = find_leak("t", GOLD, ROW, {"drawers": 4})
    assert clean is not None
    assert clean.conclusion is Conclusion.RIGHT
    leak = find_leak("t", GOLD, ROW, {"expected": "drawer three"})
    assert leak is not None
    assert (leak.conclusion, leak.reason) == (
        Conclusion.FALSE_ACCEPT,
        "it stands in the answer of /seed_session",
    )


def test_short_answers_and_choices_are_not_searched() -> None:
    assert find_leak("t", ExpectedAnswer(AnswerType.NUMBER, "7", ("7",)), ROW, {"a": 7}) is None
    assert find_leak("t", ExpectedAnswer(AnswerType.CHOICE, "ABCDE", ("ABCDE",)), ROW, {}) is None
