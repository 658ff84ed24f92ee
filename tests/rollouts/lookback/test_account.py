"""Readers say what of a run is missing, and which codes scored it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.rollouts.lookback.account import CodeScores, RunAccount, describe_accounts, find_marks
from nemo_gym.rollouts.lookback.comparison import compare
from nemo_gym.rollouts.lookback.health import check_health
from nemo_gym.rollouts.lookback.ranking import rank_runs
from nemo_gym.rollouts.lookback.reward_profile import write_profile
from nemo_gym.rollouts.lookback.run_plan import make_plan
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rows.compose import note_failed_call
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from tests.rollouts.stored_runs import failure_row, scored_row, store

NEW = "bbbbbbbbbbbb"
CODES = [
    {"digest": "aaaaaaaaaaaa", "since": "2026-01-01T00:00:00+00:00", "code": {}},
    {"digest": NEW, "since": "2026-02-02T00:00:00+00:00", "code": {}},
]
BY_CODE = (
    "2 codes scored the rows; aaaaaaaaaaaa (since 2026-01-01T00:00:00+00:00): 2 rows, mean 1.0000; "
    "bbbbbbbbbbbb (since 2026-02-02T00:00:00+00:00): 1 rows, mean 0.2500"
)


def store_two_codes(path: Path) -> Path:
    """A killed run of 8 rollouts, resumed once with other code."""
    rows = [scored_row(0), scored_row(1), scored_row(2, reward=0.25, _ng_scored_by=NEW)]
    document = {"schema_version": 1, "identity": {}, "codes": CODES, "starts": [{"planned": 8}]}
    path.with_name(f"{path.stem}_run.json").write_bytes(orjson.dumps(document))
    return store(path, rows)


def assert_all_is_said(account: RunAccount | None) -> None:
    assert account is not None
    unfinished, codes = account.notes()
    assert "3 of 8 planned rollouts; the run has not ended" in unfinished
    assert codes.endswith(BY_CODE)
    told = account.to_json()
    assert (told["rows"], told["planned"], told["state"], told["end"]) == (3, 8, "stopped", None)
    assert [(code["digest"], code["rows"], code["mean"]) for code in told["codes"]] == [
        ("aaaaaaaaaaaa", 2, 1.0),
        (NEW, 1, 0.25),
    ]


def test_every_reader_says_it(tmp_path: Path) -> None:
    rows = store_two_codes(tmp_path / "run.jsonl")
    assert_all_is_said(read_run_table([rows]).runs[0].account)
    assert_all_is_said(write_profile(StoredRun(rows), tmp_path / "profile.jsonl").account)
    assert_all_is_said(check_health(rows).account)
    for account in compare(rows, rows).accounts:
        assert_all_is_said(account)


def test_the_mean_of_equal_scores_is_their_value() -> None:
    scores = CodeScores()
    for _ in range(300):
        scores.add(0.1)
    assert (scores.rows, scores.scored, scores.mean) == (300, 300, 0.1)


def test_a_whole_run_of_one_code_says_nothing(tmp_path: Path) -> None:
    rows = store(tmp_path / "run.jsonl", [scored_row(0)])
    assert list(read_run_table([rows]).runs[0].account.notes()) == []


def test_answers_that_broke_their_verifier_are_said_by_every_reader(tmp_path: Path) -> None:
    fault: dict[str, Any] = {
        "reward": 0.0,
        "answer_fault": "raised",
        "answer_fault_detail": "KeyError:\n 'bonus'",
    }
    rows = store(tmp_path / "run.jsonl", [scored_row(0), scored_row(1, **fault), scored_row(2, **fault)])
    told = (
        f"{rows}: 2 of 3 rollouts were scored 0 because their answers broke `verify` (`answer_fault`), first: "
        "KeyError: 'bonus'"
    )
    accounts = [
        read_run_table([rows]).runs[0].account,
        *compare(rows, rows).accounts,
        check_health(rows).account,
    ]
    assert [list(account.notes()) for account in accounts] == [[told]] * 4


def test_marks_without_a_manifest_are_named_by_themselves(tmp_path: Path) -> None:
    rows = store(tmp_path / "run.jsonl", [scored_row(0), scored_row(1, _ng_scored_by="x")])
    (note,) = check_health(rows).account.notes()
    assert note.endswith(
        "2 codes scored the rows; the first code: 1 rows, mean 1.0000; x: 1 rows, mean 1.0000"
    )


def test_a_torn_last_row_is_said(tmp_path: Path) -> None:
    rows = store(tmp_path / "run.jsonl", [scored_row(0), scored_row(1)])
    rows.write_bytes(rows.read_bytes()[:-9])
    accounts = [read_run_table([rows]).runs[0].account, *compare(rows, rows).accounts]
    assert [list(account.notes()) for account in accounts] == [
        [f"{rows}: the last row is incomplete and left out"]
    ] * 3


def test_runs_of_one_code_need_no_marks(tmp_path: Path) -> None:
    accounts = []
    for name, commit in (("a", 1), ("b", 1), ("c", 2)):
        document = {"schema_version": 1, "identity": {"code": {"commit": commit}}, "starts": [{}]}
        (tmp_path / f"{name}_run.json").write_bytes(orjson.dumps(document))
        account = RunAccount.open(RunFiles.from_output(tmp_path / f"{name}.jsonl"))
        account.add(scored_row(0))
        accounts.append(account)
    one, same, other = accounts
    assert find_marks([one, same]) == [None, None]
    assert list(describe_accounts([one, same])) == []
    assert len({*find_marks([one, other])}) == 2
    (note,) = describe_accounts([one, same, other])
    assert note.startswith("2 codes scored the rows of the runs; ")
    assert ": 2 rows, mean 1.0000; " in note


@pytest.mark.parametrize(
    ("estimate", "told"),
    [
        (
            {"mean": 0.418, "low": 0.38, "high": 0.45, "pair": None},
            "the run's estimate, 0.418 (0.380 to 0.450)",
        ),
        (
            {"mean": 0.1, "low": 0.0, "high": 0.2, "pair": ["a", "b"]},
            "estimate of a less b, 0.100 (0.000 to 0.200)",
        ),
        ({"mean": None}, "no mean of the rows is the run's estimate"),
        (None, "no mean of the rows is the run's estimate"),
    ],
)
def test_every_reader_of_means_says_that_they_are_not_the_estimate(
    tmp_path: Path, estimate: dict[str, object] | None, told: str
) -> None:
    rows = store(tmp_path / "run.jsonl", [scored_row(0), scored_row(1, reward=0.0)])
    other = store(tmp_path / "other.jsonl", [scored_row(0), scored_row(1)])
    (tmp_path / "run_draws.jsonl").write_bytes(b"")
    if estimate is not None:
        (tmp_path / "run_estimate.json").write_bytes(orjson.dumps({"text": [], **estimate}))
    notes = [
        *compare(rows, other).accounts[0].notes(),
        *read_run_table([rows, other]).runs[0].account.notes(),
        *rank_runs([rows, other]).notes,
    ]
    assert len(notes) == 3
    assert all(note.endswith(told) for note in notes)
    assert not [*compare(other, other).accounts[0].notes()]


def test_tool_calls_that_the_environment_failed_are_told_by_every_reader(tmp_path: Path) -> None:
    stored = [scored_row(task) for task in range(5)]
    for row in stored[:2]:
        note_failed_call(
            row, FailedCall("look", ToolErrorKind.RAISED, f"KeyError: {row['answer']}", "app.py:7")
        )
    for number in range(4):
        note_failed_call(stored[2], FailedCall(f"tool_{number}", ToolErrorKind.NO_ROUTE, "no such route"))
    note_failed_call(stored[3], FailedCall("look", ToolErrorKind.REJECTED, "HTTP 400: no"))
    rows = store(tmp_path / "run.jsonl", stored)
    told = (
        f"{rows}: 3 rows have tool calls that failed by the environment's fault: 2 of `look`: KeyError: 0 (app.py:7); "
        "1 of `tool_0`: no such route; 1 of `tool_1`: no such route; 2 by 2 other causes"
    )
    other = store(tmp_path / "other.jsonl", stored)
    assert [*compare(rows, other).accounts[0].notes()] == [told]
    assert [*read_run_table([rows, other]).runs[0].account.notes()] == [told]


def test_rollouts_that_are_in_no_mean_are_told(tmp_path: Path) -> None:
    whole = [scored_row(task, repeat) for task in range(3) for repeat in range(2)]
    one = store(tmp_path / "one.jsonl", whole[:4], [failure_row(2, 0), failure_row(2, 1)])
    other = store(tmp_path / "other.jsonl", [{**row, "reward": None} for row in whole[:2]] + whole[2:])
    told = [f"{path}: 2 of 6 rollouts have no score, and are in no mean" for path in (one, other)]
    assert [*rank_runs([one, other]).notes][-2:] == told
    assert [note for account in compare(one, other).accounts for note in account.notes()] == told
    [first, left_out] = make_plan(run=one).notes
    assert first == told[0]
    assert left_out.startswith(f"{one}: tasks of the run without a reward, which the plan leaves out: 1;")


def test_rows_that_name_no_task_are_told(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"prompt":"A","response":"x","reward":1}\n' * 3)
    told = (
        "3 rows have neither `_ng_task_index` nor `responses_create_params`: each counts as a task of its own"
    )
    assert told in " ".join(read_run_table([path]).runs[0].account.notes())
