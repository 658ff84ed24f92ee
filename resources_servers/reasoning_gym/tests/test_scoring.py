"""Gold, no-op and adversarial answers to the library's tasks, and rows that can't be scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import InputError, VerifierError
from resources_servers.reasoning_gym import scoring
from resources_servers.reasoning_gym.prepare import generate_rows
from resources_servers.reasoning_gym.scoring import PROBES, check_row, read_entry, score_answer, task_names


def entry_of(task: str, **config: Any) -> dict[str, Any]:
    (row,) = generate_rows(task, size=1, seed=11, config=config)
    return {key: row[key] for key in ("question", "answer", "metadata")}


def score(entry: dict[str, Any], answer: str | None, **config: Any) -> float:
    return score_answer(json.dumps(entry), json.dumps(config), answer)


def test_the_library_has_its_tasks() -> None:
    assert len(task_names()) >= 105
    assert "composite" not in task_names()


def test_every_task_gives_its_gold_answer_full_marks_and_no_answer_nothing() -> None:
    for task in task_names():
        entry = entry_of(task)
        assert score(entry, None) == 0.0, task
        if task in PROBES:
            assert entry["answer"] is None, task
        else:
            assert score(entry, entry["answer"]) == 1.0, task


def test_a_refusal_never_gets_full_marks() -> None:
    for task in task_names():
        assert score(entry_of(task), "I do not know.") < 0.5, task


@pytest.mark.parametrize(
    ("task", "key"), [("propositional_logic", "example_answer"), ("rubiks_cube", "example_correct_answer")]
)
def test_tasks_of_many_right_answers_accept_one_that_follows_the_rules(task: str, key: str) -> None:
    entry = entry_of(task)
    assert score(entry, entry["metadata"][key]) == 1.0


def test_a_proper_coloring_scores_and_an_empty_one_does_not() -> None:
    entry = entry_of("graph_color")
    assert score(entry, json.dumps(entry["metadata"]["possible_answer"])) == 1.0
    assert score(entry, "{}") < 0.1
    assert score(entry, json.dumps(dict.fromkeys(entry["metadata"]["possible_answer"], 1))) < 0.1


def test_the_arc_boards_survive_json() -> None:
    entry = entry_of("rearc")
    assert isinstance(read_entry(json.dumps(entry))["metadata"]["output"], tuple)
    assert score(entry, entry["answer"]) == 1.0
    assert score(entry, "0 0\n0 0") == 0.05


def test_any_text_is_no_right_answer_to_a_question_of_true_or_false() -> None:
    entry = entry_of("game_of_life_halting")
    wrong = "False" if entry["answer"] == "True" else "True"
    assert score(entry, entry["answer"].lower()) == 1.0
    assert score(entry, wrong) == score(entry, "True False") == 0.0


@pytest.mark.parametrize(
    "task", ["binary_matrix", "spiral_matrix", "string_insertion", "n_queens", "countdown"]
)
def test_an_answer_is_not_run_as_code(task: str, tmp_path: Path) -> None:
    entry, trace = entry_of(task), tmp_path / "ran"
    baseline = score(entry, "")
    assert score(entry, f"open({str(trace)!r}, 'w').close()") == baseline
    assert score(entry, f"__import__('pathlib').Path({str(trace)!r}).touch()") == baseline
    assert score(entry, "__import__('sys')._getframe(1).f_locals['oracle_answer']") == baseline
    assert not trace.exists()


def test_a_typographic_minus_is_a_minus() -> None:
    entry = {**entry_of("chain_sum"), "answer": "-4"}
    assert score(entry, "\N{MINUS SIGN}4") == 1.0
    assert score(entry, "4") < 1.0


def test_lists_that_the_scorers_take_still_count() -> None:
    entry = entry_of("spiral_matrix")
    assert score(entry, f"[{', '.join(entry['answer'].split())}]") == pytest.approx(0.1)


@pytest.mark.parametrize("task", ["simple_integration", "intermediate_integration"])
def test_the_question_written_back_as_an_integral_is_no_answer(task: str) -> None:
    entry = entry_of(task)
    integrand, variable = entry["metadata"]["integrand"], entry["metadata"]["variable"]
    assert score(entry, f"Integral({integrand}, {variable}) + C") == 0.0


def test_a_power_tower_is_scored_at_once() -> None:
    assert score(entry_of("puzzle24"), "9**9**9**9") == score(entry_of("puzzle24"), "nonsense")


@pytest.mark.parametrize(
    ("task", "answer"),
    [("prime_factorization", "two times three"), ("boxnet", "5"), ("game_of_life", '{"a": 1}')],
)
def test_an_answer_that_the_scorer_stumbles_over_is_wrong(task: str, answer: str) -> None:
    assert score(entry_of(task), answer) == 0.0


def test_scorers_that_depend_on_options_get_those_of_the_row() -> None:
    entry = entry_of("decimal_arithmetic", max_num_decimal_places=2, min_num_decimal_places=2)
    near = str(float(entry["answer"]) + 0.009)
    assert score(entry, near, max_num_decimal_places=2, min_num_decimal_places=2) == 1.0
    assert score(entry, near) == 0.0


def refusal(entry: dict[str, Any], **config: Any) -> InputError:
    with pytest.raises(InputError) as error:
        score(entry, "x", **config)
    return error.value


def test_an_unknown_dataset_is_refused_with_the_nearest_name() -> None:
    error = refusal({"question": "q", "answer": "a", "metadata": {"source_dataset": "knight_knaves"}})
    assert error.failure.param == "metadata.source_dataset"
    assert "knights_knaves" in str(error)


@pytest.mark.parametrize("metadata", [{}, {"source_dataset": 3}])
def test_a_row_that_does_not_name_its_dataset_is_refused(metadata: dict[str, Any]) -> None:
    error = refusal({"question": "q", "answer": "a", "metadata": metadata})
    assert error.failure.param == "metadata.source_dataset"


def test_unknown_options_are_refused() -> None:
    assert refusal(entry_of("chain_sum"), no_such_option=1).failure.param == "dataset_config"


@pytest.mark.parametrize("task", [*PROBES, "knights_knaves", "rearc", "simple_integration", "zebra_puzzles"])
def test_a_row_without_what_its_scorer_reads_is_refused_and_not_scored_zero(task: str) -> None:
    entry = entry_of(task)
    bare = {**entry, "answer": None, "metadata": {"source_dataset": task}}
    assert refusal(bare).failure.param in ("answer", "metadata")
    if task in ("rearc", "simple_integration"):
        assert refusal({**bare, "answer": entry["answer"]}).failure.param in ("answer", "metadata")


def test_a_row_whose_own_answer_is_wrong_is_refused() -> None:
    error = refusal({**entry_of("countdown"), "answer": "1 + 1"})
    assert error.failure.param == "answer"
    assert "scores 0.05" in str(error)


def test_a_score_outside_of_its_range_is_the_verifiers_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of("chain_sum")
    check_row(json.dumps(entry), "{}")
    monkeypatch.setattr(scoring, "_scorer_of", lambda task, config: lambda answer, entry: 7.0)
    with pytest.raises(VerifierError, match=r"7\.0, which is outside 0 to 1"):
        score(entry, "x")
