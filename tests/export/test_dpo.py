from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.export.report import LeftOut, Report
from tests.export.rows import call, exported, failed, output, read, row, text, thought, two_agents, write


def pairs(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> list[tuple[str, str]]:
    written, _ = exported(tmp_path, "dpo", rows, options=options)
    return [(each["chosen"][0]["content"], each["rejected"][0]["content"]) for each in written]


def group(*rewards: float, tokens: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    lengths = tokens or (10,) * len(rewards)
    return [
        row(0, repeat, reward, [text(f"{reward:g}")], tokens=length)
        for repeat, (reward, length) in enumerate(zip(rewards, lengths, strict=True))
    ]


def test_the_best_is_paired_with_the_worst(tmp_path: Path) -> None:
    assert pairs(tmp_path, group(1, 3, 0, 2)) == [("3", "0")]


def test_all_pairs_are_a_margin_apart(tmp_path: Path) -> None:
    found = pairs(tmp_path, group(0, 1, 3), pairs="all", margin=2)
    assert sorted(found) == [("3", "0"), ("3", "1")]


def test_pairs_matched_by_length_use_each_answer_once(tmp_path: Path) -> None:
    rows = group(1, 0.9, 0, 0.1, tokens=(100, 20, 25, 90))
    assert sorted(pairs(tmp_path, rows, pairs="length_matched", margin=0.5)) == [("0.9", "0"), ("1", "0.1")]


def test_equal_rewards_make_no_pair(tmp_path: Path) -> None:
    rows, report = exported(tmp_path, "dpo", group(1, 1))
    assert rows == []
    assert report.left_out == {LeftOut.NO_DIFFERENCE: 2}


def test_rollouts_outside_of_the_best_pair_are_not_called_unpaired(tmp_path: Path) -> None:
    _, report = exported(tmp_path, "dpo", group(0.7, 0.5, 0.4))
    assert report.left_out == {LeftOut.OTHER_PAIR: 1}


def test_a_margin_that_no_other_rollout_reaches_is_named(tmp_path: Path) -> None:
    _, report = exported(tmp_path, "dpo", group(0.7, 0.5), options={"margin": 0.3})
    assert report.left_out == {LeftOut.BELOW_MARGIN: 2}


@pytest.mark.parametrize(("rewards", "margin", "count"), [((0.7, 0.4), 0.3, 1), ((0.1 + 0.2, 0.3), 0, 0)])
def test_rewards_are_compared_up_to_rounding(
    rewards: tuple[float, float], margin: float, count: int, tmp_path: Path
) -> None:
    written, _ = exported(tmp_path, "dpo", group(*rewards), options={"margin": margin})
    assert len(written) == count


def test_a_failure_is_never_the_worse_answer(tmp_path: Path) -> None:
    rows = [*group(1, 0.5), failed(0, 2)]
    assert pairs(tmp_path, rows) == [("1", "0.5")]


@pytest.mark.parametrize(("may", "expected"), [(False, [("1", "0")]), (True, [("2", "0")])])
def test_a_truncated_answer_is_chosen_only_with_the_option(
    may: bool, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    rows = group(2, 1, 0)
    rows[0]["_ng_outcome"] = "truncated"
    assert pairs(tmp_path, rows, choose_truncated=may) == expected


def test_a_truncated_answer_may_be_rejected(tmp_path: Path) -> None:
    rows = group(1, 0)
    rows[1]["_ng_outcome"] = "truncated"
    assert pairs(tmp_path, rows) == [("1", "0")]


def test_both_answers_of_a_pair_have_the_same_prompt(tmp_path: Path) -> None:
    rows = group(1, 0)
    rows[1]["responses_create_params"]["input"] = "Something else?"
    _, report = exported(tmp_path, "dpo", rows)
    assert report.left_out == {LeftOut.PROMPTS_DIFFER: 1, LeftOut.UNPAIRED: 1}


def test_rollouts_of_different_tasks_are_never_paired(tmp_path: Path) -> None:
    assert pairs(tmp_path, [row(0, 0, 1.0), row(1, 0, 0.0)]) == []


def two_runs(
    tmp_path: Path, *, first: str = "4", second: str = "4", across: bool = True
) -> tuple[list[tuple[str, str]], Report]:
    """Export two runs of one question: rewards 1 and 1 in the first, 0 in the second; expected answers as given."""
    inputs = []
    for name, rewards, answer in (("a", (1, 1), first), ("b", (0,), second)):
        rows = [row(0, repeat, reward, [text(f"{name}{repeat}")]) for repeat, reward in enumerate(rewards)]
        kept = ("_ng_task_index", "_ng_rollout_index", "responses_create_params")
        sent = [{key: each[key] for key in kept} | {"expected_answer": answer} for each in rows]
        inputs.append(write(tmp_path / f"{name}.jsonl", rows))
        write(tmp_path / f"{name}_materialized_inputs.jsonl", sent)
    output = tmp_path / "dpo.jsonl"
    options: dict[str, Any] = {"across_runs": across, "pairs": "all"}
    report = export(ExportSettings(format="dpo", inputs=inputs, output=output, options=options))
    return [(each["chosen"][0]["content"], each["rejected"][0]["content"]) for each in read(output)], report


def test_answers_of_several_runs_to_one_task_make_pairs_if_wanted(tmp_path: Path) -> None:
    pairs, report = two_runs(tmp_path)
    assert pairs == [("a0", "b0"), ("a1", "b0")]
    assert (report.read, report.exported, report.left_out) == (3, 3, {})


def test_without_the_option_runs_stay_apart_and_the_report_names_it(tmp_path: Path) -> None:
    pairs, report = two_runs(tmp_path, across=False)
    assert (pairs, report.left_out) == ([], {LeftOut.UNPAIRED: 1, LeftOut.NO_DIFFERENCE: 2})
    assert "across_runs" in LeftOut.UNPAIRED.explanation


def test_the_advice_does_not_name_an_option_that_is_set(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{name}.jsonl", [row(0, 0, 1.0, [text(name)])]) for name in "ab"]
    for path in inputs:
        task = {key: row(0, 0, 1.0)[key] for key in ("_ng_task_index", "responses_create_params")}
        write(path.with_name(f"{path.stem}_materialized_inputs.jsonl"), [task | {"_ng_rollout_index": 0}])
    for chosen, reason in ((inputs, LeftOut.UNPAIRED_ANYWHERE), (inputs[:1], LeftOut.ONE_RUN)):
        output = tmp_path / f"{reason}.jsonl"
        settings = ExportSettings(format="dpo", inputs=chosen, output=output, options={"across_runs": True})
        assert export(settings).left_out == {reason: len(chosen)}
        assert "across_runs" not in reason.explanation
        assert "several times" in reason.explanation


def test_runs_with_other_expected_answers_are_not_paired(tmp_path: Path) -> None:
    pairs, report = two_runs(tmp_path, second="5")
    assert (pairs, report.left_out) == ([], {LeftOut.ONE_RUN: 3})


def answers(*given: tuple[str, float], **fields: Any) -> list[dict[str, Any]]:
    """Rollouts of one task by their texts and rewards."""
    return [row(0, repeat, reward, [text(words)], **fields) for repeat, (words, reward) in enumerate(given)]


@pytest.mark.parametrize("choice", ["best_worst", "all", "length_matched"])
def test_equal_answers_make_no_pair_whatever_their_rewards(tmp_path: Path, choice: str) -> None:
    written, report = exported(tmp_path, "dpo", answers(("a", 1), ("a", 0)), options={"pairs": choice})
    assert (written, report.left_out, report.equal_pairs) == ([], {LeftOut.EQUAL_ANSWERS: 2}, 1)
    assert "        1  pairs of equal answers were not written" in list(report.lines())
    assert report.to_json()["left_out"]["equal_answers"]["rollouts"] == 2


@pytest.mark.parametrize("choice", ["best_worst", "all", "length_matched"])
def test_a_pair_with_another_text_takes_the_place_of_equal_answers(tmp_path: Path, choice: str) -> None:
    given = answers(("a", 1), ("a", 0), ("b", 0.2))
    assert ("a", "b") in pairs(tmp_path, given, pairs=choice)
    assert all(chosen != rejected for chosen, rejected in pairs(tmp_path, given, pairs=choice))


def test_answers_that_differ_in_dropped_reasoning_only_are_equal(tmp_path: Path) -> None:
    rows = [
        row(0, repeat, reward, [thought(words), text("a")])
        for repeat, (words, reward) in enumerate((("x", 1), ("y", 0)))
    ]
    _, report = exported(tmp_path, "dpo", rows, options={"reasoning": "drop"})
    assert report.left_out == {LeftOut.EQUAL_ANSWERS: 2}
    _, report = exported(tmp_path, "dpo", rows)
    assert report.exported == 2


def test_answers_that_differ_in_the_ids_of_calls_only_are_equal(tmp_path: Path) -> None:
    rows = [
        row(0, repeat, reward, [call("Rome", name), output("sun", name), text("a")])
        for repeat, (name, reward) in enumerate((("call_1", 1.0), ("call_2", 0.0)))
    ]
    _, report = exported(tmp_path, "dpo", rows)
    assert report.left_out == {LeftOut.EQUAL_ANSWERS: 2}


def test_equal_answers_of_two_runs_make_no_pair(tmp_path: Path) -> None:
    inputs = []
    for name, reward in (("a", 1.0), ("b", 0.0)):
        inputs.append(write(tmp_path / f"{name}.jsonl", answers(("same", reward))))
        write(tmp_path / f"{name}_materialized_inputs.jsonl", [answers(("same", 0))[0] | {"response": None}])
    settings = ExportSettings(
        format="dpo", inputs=inputs, output=tmp_path / "out.jsonl", options={"across_runs": True}
    )
    assert export(settings).equal_pairs == 1
    assert read(tmp_path / "out.jsonl") == []


@pytest.mark.parametrize("pairs", ["best_worst", "all", "length_matched"])
def test_both_answers_of_a_pair_are_of_one_agent(tmp_path: Path, pairs: str) -> None:
    rows = two_agents((0, 1), (0, 1), (0.5, 0.25), tasks=2)
    written, _ = exported(tmp_path, "dpo", rows, options={"pairs": pairs})
    answers = [[each[side][0]["content"] for side in ("chosen", "rejected")] for each in written]
    assert {chosen[0] for chosen, _ in answers} == {"a", "b"}
    assert all(chosen[0] == rejected[0] for chosen, rejected in answers)


def test_agents_with_equal_rewards_each_make_no_pair(tmp_path: Path) -> None:
    written, report = exported(tmp_path, "dpo", two_agents((0, 1), (0, 1)))
    assert (written, report.left_out) == ([], {LeftOut.NO_DIFFERENCE: 4})
