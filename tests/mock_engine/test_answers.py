from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine._answers import Entry, answer_key, read_answers, wrong_answer


def task(question: object, **fields: object) -> bytes:
    return orjson.dumps({"responses_create_params": {"input": question}, **fields})


def test_a_task_row_is_found_by_its_whole_last_user_message() -> None:
    items = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    key = answer_key([task(items, expected_answer=4), task("Capital of France?", answer="Paris")])
    assert key.find("2 + 2?") == Entry(r"The answer is \boxed{4}.", r"The answer is \boxed{5}.")
    assert key.find("Capital of France?") == Entry(
        r"The answer is \boxed{Paris}.", r"The answer is \boxed{not Paris}."
    )
    assert key.find("2 + 2? And more") is None


def test_a_row_with_match_is_found_by_part_and_said_as_it_stands() -> None:
    key = answer_key(['{"match": "France", "answer": "It is Paris.", "wrong": "It is Rome."}'])
    assert key.find("What is the capital of France?") == Entry("It is Paris.", "It is Rome.")


def test_a_row_without_messages_yet_is_found_by_its_question() -> None:
    key = answer_key(['{"question": "2 + 2?", "expected_answer": "4"}'])
    assert key.find("Answer with a number: 2 + 2?") == Entry(
        r"The answer is \boxed{4}.", r"The answer is \boxed{5}."
    )


def test_the_form_of_answers_can_be_chosen() -> None:
    assert (
        answer_key([task("2 + 2?", expected_answer="4")], "#### {answer}").by_question["2 + 2?"].answer
        == "#### 4"
    )


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("B", "C"),
        ("z", "A"),
        ("42", "43"),
        ("x = -3", "x = -2"),
        ("1.9", "1.10"),
        ("Paris", "not Paris"),
        ("", "nothing"),
        (7, "8"),
    ],
)
def test_a_wrong_answer_is_near_the_right_one_and_differs(right: object, wrong: str) -> None:
    assert wrong_answer(right) == wrong


def test_every_line_that_can_t_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_bytes(b'{"match": "a"}\n\nnot json\n[1]\n{"answer": "x"}\n{"match": "b", "answer": "c"}\n')
    with pytest.raises(ConfigError) as raised:
        read_answers(file)
    message = raised.value.failure.message
    assert all(f"line {number}: " in message for number in (1, 3, 4, 5))
    assert "line 6" not in message
    assert str(file) in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.jsonl"):
        read_answers(tmp_path / "gone.jsonl")
