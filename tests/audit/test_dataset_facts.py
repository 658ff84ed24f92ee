from __future__ import annotations

from nemo_gym.audit.dataset_facts import DatasetFacts, Difficulty
from tests.audit.planted_verifiers import make_row
from tests.audit.test_rollout_signs import make_rollout


def test_duplicates_contradictions_and_shared_tasks_are_told_apart() -> None:
    facts = DatasetFacts()
    facts.add("train", 1, make_row("How many?", expected_answer="7"))
    facts.add("train", 2, make_row("how  many?", expected_answer="7"))
    facts.add("train", 3, make_row("How many?", expected_answer="8"))
    facts.add("train", 4, make_row("How much?", expected_answer="7"))
    facts.add("validation", 1, make_row("How many?", expected_answer="7"))
    assert facts.duplicates == ["train:2 and train:1"]
    assert facts.contradictions == ["train:3 and train:1"]
    assert facts.shared == ["validation:1 and train:1"]
    assert [note.split(",")[0] for note in facts.write_notes()] == [
        "1 of 5 rows repeat an earlier row",
        "1 of 5 rows have the prompt of an earlier row and another expected answer",
        "1 of 5 rows are in another split too",
    ]


def test_rows_without_an_answer_are_no_duplicates_of_each_other() -> None:
    facts = DatasetFacts()
    for line in (1, 2):
        facts.add("train", line, make_row("Play.", seed=line))
    assert list(facts.write_notes()) == []


def test_difficulty_counts_tasks_by_how_often_they_were_solved() -> None:
    difficulty = Difficulty()
    for question, rewards in {"easy": (1, 1), "hard": (0, 0), "mixed": (0, 1)}.items():
        for reward in rewards:
            difficulty.add(make_rollout("x", question=question, reward=reward))
    difficulty.add({"responses_create_params": {"input": "failed"}})
    assert difficulty.as_json() == {"tasks": 3, "always": 1, "sometimes": 1, "never": 1}
