"""The failures of a run by cause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson

from nemo_gym.failures import Boundary, Failure
from nemo_gym.rollouts.run.answer import Failed
from nemo_gym.rollouts.run.failure_groups import FURTHER_CLASSES, FailureGroups, failure_lines, group_file
from nemo_gym.rows.identity import RolloutId
from tests.rollouts.doubles import failure, planned

BUG = Failure(
    Boundary.VERIFIER,
    "unhandled_exception",
    "ZeroDivisionError: division by zero",
    peer="shop",
    remedy="See the log of `shop` for the traceback.",
    place="resources_servers/shop/app.py:17",
)


def grouped(*failures: Failure) -> FailureGroups:
    groups = FailureGroups()
    for number, each in enumerate(failures):
        groups.note(RolloutId(number // 2, number % 2), each.kind, each)
    return groups


def test_failures_at_one_place_are_one_group_with_an_example() -> None:
    (group,) = grouped(BUG, replace(BUG, message="ZeroDivisionError: other text")).rank_groups()
    assert (group.count, group.place, group.task, group.rollout) == (2, BUG.place, 0, 0)
    assert not group.may_pass


def test_messages_that_differ_in_numbers_are_one_group() -> None:
    messages = ["no answer of 0x7f3a after 12 s", "no answer of 0x11 after 3 s", "refused"]
    counts = [
        group.count for group in grouped(*(replace(failure(), message=m) for m in messages)).rank_groups()
    ]
    assert counts == [2, 1]


def test_statuses_are_no_such_numbers() -> None:
    messages = ["refused 17 tokens (HTTP 400)", "refused 3 tokens (HTTP 400)", "refused 3 tokens (HTTP 404)"]
    groups = grouped(*(replace(failure(), message=text) for text in messages)).rank_groups()
    assert [(group.count, group.message[-10:]) for group in groups] == [(2, "(HTTP 400)"), (1, "(HTTP 404)")]


def test_the_number_of_groups_is_bounded() -> None:
    letters = [chr(ord("a") + n % 26) * (1 + n // 26) for n in range(150)]
    groups = grouped(*(replace(failure(), message=text) for text in letters)).rank_groups()
    assert len(groups) == 101
    assert sum(group.count for group in groups) == 150


def test_the_number_of_groups_of_invented_classes_is_bounded_and_none_is_uncounted() -> None:
    groups = grouped(*(replace(failure(), code=f"invented_{number}") for number in range(1000))).rank_groups()
    assert len(groups) == 201
    assert sum(group.count for group in groups) == 1000
    assert (groups[0].failure_class, groups[0].count) == (FURTHER_CLASSES, 800)
    assert "800 × (further classes)" in failure_lines(groups, None)


def test_the_lines_name_cause_place_example_log_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "shop.log").write_text("Traceback\n")
    assert list(failure_lines(grouped(BUG).rank_groups(), tmp_path)) == [
        "1 × verifier:unhandled_exception",
        "    ZeroDivisionError: division by zero",
        "    raised at resources_servers/shop/app.py:17",
        "    for example task 0, rollout 0",
        f"    log: {tmp_path}/shop.log",
        "    -> See the log of `shop` for the traceback.",
    ]


def test_further_groups_are_counted() -> None:
    groups = grouped(*(replace(failure(), code=code) for code in "abcdefg")).rank_groups()
    assert list(failure_lines(groups, None))[-1] == "… and 2 failures of 2 other kinds"
    assert len(list(failure_lines(groups, None, shown=None))) == 7 * 4


def test_a_stored_row_gives_the_same_group() -> None:
    attempt, groups = planned(3, 1), FailureGroups()
    line = Failed(BUG, BUG.kind).to_line(attempt, terminal=True)
    groups.note_row(attempt.identity, orjson.loads(line))
    (group,) = groups.rank_groups()
    assert (group.place, group.message, group.server) == (BUG.place, BUG.message, "shop")


def test_a_row_of_another_program_is_grouped_by_its_class() -> None:
    groups = FailureGroups()
    groups.note_row(RolloutId(0, 0), {"_ng_failure_class": "crashed"})
    assert groups.rank_groups()[0].message == "crashed: no details given"


def test_a_file_gives_the_places_of_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "out_failures.jsonl"
    rows = [
        {"_ng_failure_class": name, "_ng_failure": {"peer": name, "message": f"{name} failed"}}
        for name in ["a", "b", "a"] + ["c"] * 30
    ]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows) + b"torn")
    groups = group_file(path)
    found = [(group.failure_class, group.server, group.count) for group in groups[:2]]
    assert found == [("c", "c", 30), ("a", "a", 2)]
    assert sum(group.count for group in groups) == len(rows) + 1
    assert len(groups[0].rows) == 20
    content = path.read_bytes()
    for start, length in groups[1].rows:
        assert orjson.loads(content[start : start + length])["_ng_failure_class"] == "a"
