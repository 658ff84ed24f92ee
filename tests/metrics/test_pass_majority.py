from typing import Any

import pytest

from nemo_gym.metrics._pass_majority import (
    add_avg_sample_std_dev,
    compute_pass_majority_metrics,
    compute_subset_metrics,
    highest_k_metrics,
)

Tasks = list[list[dict[str, Any]]]


def tasks_of(*rewards: list[float]) -> Tasks:
    return [[{"reward": reward} for reward in task] for task in rewards]


def test_the_reward_is_the_default_score_and_is_called_accuracy() -> None:
    metrics, score_dicts, names, max_k = compute_pass_majority_metrics(tasks_of([1.0, 0.0], [0.0, 0.0]))
    assert (names, max_k) == (["accuracy"], 2)
    assert score_dicts == [[{"accuracy": 1.0}, {"accuracy": 0.0}], [{"accuracy": 0.0}, {"accuracy": 0.0}]]
    assert metrics["pass@1/accuracy"] == 25.0
    assert metrics["pass@2/accuracy"] == 50.0
    assert metrics["pass@1[avg-of-2]/accuracy"] == 25.0
    assert metrics["per_sample_aggregate"] == {"accuracy": [50.0, 0.0]}
    assert "majority@1/accuracy" not in metrics


def test_no_key_lacks_a_k_because_authors_loop_over_them() -> None:
    metrics = compute_pass_majority_metrics(tasks_of([1.0, 0.0]))[0]
    assert not [key for key in metrics if "@" not in key and key != "per_sample_aggregate"]


def test_named_scores_are_taken_as_the_score_function_gives_them() -> None:
    tasks: Tasks = [[{"ok": True, "rating": 4}, {"ok": False, "rating": None}]]
    metrics, _, names, _ = compute_pass_majority_metrics(
        tasks, score_fn=lambda row: {"ok": row["ok"], "rating": row["rating"]}
    )
    assert names == ["ok", "rating"]
    assert metrics["pass@2/ok"] == 100.0
    assert metrics["pass@1/rating"] == 400.0
    assert metrics["short_tasks@2/rating"] == 1


def test_a_score_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="'accuracy' is 'high'"):
        compute_pass_majority_metrics(tasks_of([1.0]), score_fn=lambda row: {"accuracy": "high"})  # type: ignore[dict-item]


def test_answers_add_majority_and_the_share_without_an_answer() -> None:
    tasks: Tasks = [
        [
            {"reward": 1.0, "extracted": "a"},
            {"reward": 0.0, "extracted": "b"},
            {"reward": 1.0, "extracted": "a"},
            {"reward": 0.0, "extracted": None},
        ]
    ]
    metrics, score_dicts, names, _ = compute_pass_majority_metrics(tasks, answer_key="extracted")
    assert names == ["accuracy", "no_answer"]
    assert score_dicts[0][3] == {"accuracy": 0.0, "no_answer": 1.0}
    assert metrics["majority@4/accuracy"] == pytest.approx(100.0)
    assert metrics["majority@1/no_answer"] == metrics["pass@1/no_answer"] == 25.0


def test_failed_attempts_score_nothing_and_keep_the_place_of_their_run() -> None:
    tasks: Tasks = [[{"reward": 1.0}, {"reward": 3.0}, {"reward": 2.0}, {"_ng_outcome": "failed"}]]
    metrics, score_dicts, _, max_k = compute_pass_majority_metrics(tasks)
    assert max_k == 4
    assert score_dicts[0][3] == {}
    assert metrics["pass@1[avg-of-4]/accuracy"] == 200.0
    assert metrics["short_tasks@4/accuracy"] == 1
    assert "pass@4/accuracy" not in metrics
    assert metrics["per_sample_aggregate"] == {"accuracy": [100.0, 300.0, 200.0]}


def test_a_judges_failure_that_carries_a_zero_is_no_score() -> None:
    tasks: Tasks = [[{"reward": 1.0}, {"reward": 0.0, "_ng_failure_class": "judge_failed"}]]
    assert compute_pass_majority_metrics(tasks)[0]["pass@1/accuracy"] == 100.0


def test_continuous_scores_do_not_depend_on_the_order_of_rollouts() -> None:
    rising = compute_pass_majority_metrics(tasks_of([0.1, 0.5, 0.9]))[0]
    falling = compute_pass_majority_metrics(tasks_of([0.9, 0.5, 0.1]))[0]
    for k in (1, 2, 3):
        assert rising[f"pass@{k}/accuracy"] == falling[f"pass@{k}/accuracy"]


def test_no_tasks_give_an_empty_result_of_the_same_shape() -> None:
    assert compute_pass_majority_metrics([]) == ({}, [], [], 0)
    assert compute_subset_metrics([], "difficulty") == {}


def test_subsets_are_prefixed_and_tasks_that_name_none_are_in_none() -> None:
    tasks: Tasks = [
        [{"reward": 1.0, "difficulty": "easy"}],
        [{"reward": 0.0, "difficulty": "hard"}],
        [{"reward": 1.0, "difficulty": "hard"}],
        [{"reward": 1.0, "difficulty": ""}],
        [{"reward": 1.0}],
        [{"_ng_outcome": "failed"}, {"reward": 0.0, "difficulty": "easy"}],
    ]
    metrics = compute_subset_metrics(tasks, "difficulty")
    assert metrics["hard/pass@1/accuracy"] == 50.0
    assert metrics["easy/pass@1/accuracy"] == 50.0
    assert {key.split("/")[0] for key in metrics} == {"easy", "hard"}
    assert not any("per_sample_aggregate" in key for key in metrics)


def test_sample_spread_is_averaged_over_tasks_in_the_units_of_the_score() -> None:
    metrics, score_dicts, names, max_k = compute_pass_majority_metrics(
        tasks_of([1.0, 0.0], [0.0, 0.0], [1.0])
    )
    add_avg_sample_std_dev(metrics, score_dicts, names, max_k)
    assert metrics["pass@1[avg-of-2]/accuracy/avg_sample_std_dev"] == pytest.approx(0.5**0.5 / 2)


AGENT_METRICS = {
    "pass@1/accuracy": 10.0,
    "pass@8/accuracy": 50.0,
    "pass@16/accuracy": 60.0,
    "pass@16/no_answer": 5.0,
    "pass@16/accuracy/std_err_across_tasks": 1.0,
    "pass@1[avg-of-16]/accuracy": 11.0,
    "pass@1[avg-of-16]/accuracy/std_dev_across_runs": 2.0,
    "pass@1[avg-of-16]/accuracy/avg_sample_std_dev": 0.1,
    "easy/pass@32/accuracy": 90.0,
    "mean/reward": 0.1,
}


@pytest.mark.parametrize(
    ("pattern", "choice", "expected"),
    [
        ("pass@{k}", {}, {"pass@16/accuracy": 60.0, "pass@16/no_answer": 5.0}),
        ("pass@{k}", {"score_names": ["accuracy"]}, {"pass@16/accuracy": 60.0}),
        ("pass@{k}", {"exclude_names": ["no_answer"]}, {"pass@16/accuracy": 60.0}),
        ("pass@1[avg-of-{k}]", {}, {"pass@1[avg-of-16]/accuracy": 11.0}),
        ("easy/pass@{k}", {}, {"easy/pass@32/accuracy": 90.0}),
        ("majority@{k}", {}, {}),
    ],
)
def test_the_largest_k_of_a_pattern_is_numeric_and_without_errors_or_spreads(
    pattern: str, choice: dict[str, list[str]], expected: dict[str, float]
) -> None:
    assert highest_k_metrics(AGENT_METRICS, pattern, **choice) == expected


def test_a_pattern_without_k_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'pass@1'"):
        highest_k_metrics(AGENT_METRICS, "pass@1")
