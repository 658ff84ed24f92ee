"""Filters of exports select the rows that those of the page select."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.row_index import build_entry
from nemo_gym.viewer.filtering import RowFilter

ROWS: list[dict[str, Any]] = [
    {
        "_ng_task_index": 0,
        "reward": 0.0,
        "agent_ref": {"name": "swe_one"},
        "answer": "Permission denied",
        "response": {"created_at": 1777660199},
    },
    {
        "_ng_task_index": 1,
        "reward": 0.5,
        "agent_ref": {"name": "math"},
        "steps": 4000,
        "answer": 'say "hi"',
        "response": {
            "created_at": 1777660200,
            "output": [{"_ng_tokens": {"policy_version": 11}}, {"_ng_tokens": {"policy_version": 12}}, {}],
        },
    },
    {"_ng_task_index": 2, "reward": 1.0, "agent_ref": {"name": "SWE two"}, "steps": 10, "answer": "größer"},
    {"_ng_task_index": 3, "_ng_outcome": "failed", "_ng_failure_class": "timeout"},
]


def selected(text: str) -> list[int]:
    wanted = RowFilter(text)
    lines = [orjson.dumps(row) + b"\n" for row in ROWS]
    return [at for at, row in enumerate(ROWS) if wanted.matches(build_entry(row), lines[at])]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3]),
        ("reward<1", [0, 1]),
        ("-reward<1", [2, 3]),
        ("reward=0,1", [0, 2]),
        ("reward!=0,1", [1]),
        ("reward:none", [3]),
        ("reward!=none", [0, 1, 2]),
        ("steps>=4k", [1]),
        ("steps<1e1", []),
        ("agent:swe*", [0, 2]),
        ("env:math,swe_one", [0, 1]),
        ('agent:"swe two"', [2]),
        ("agent!=math", [0, 2, 3]),
        ("agent:none", [3]),
        ("agent:*", [0, 1, 2]),
        ("failure=time* -outcome:completed", [3]),
        ("task>0 task<=2", [1, 2]),
        ('"permission denied"', [0]),
        ("permission reward<1", [0]),
        ("größer", [2]),
        ('"say \\"hi\\""', [1]),
        ("length>1", [0, 1, 2, 3]),
        ("at>=2026-05-01T18:30", [1]),
        ("at<2026-05-01T18:30:00", [0]),
        ("at>2026-05-01", [0, 1]),
        ("policy:12", [1]),
    ],
)
def test_terms(text: str, rows: list[int]) -> None:
    assert selected(text) == rows


def test_escaped_texts_are_found_too() -> None:
    line = b'{"answer":"gr\\u00f6\\u00dfer"}\n'
    assert RowFilter("größer").matches(build_entry({}), line)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("reward<much", '"much" is not a number'),
        ("reward<none", '"none" is not a number'),
        ("at>2026-02-30", '"2026-02-30" is not a number'),
        ("agent<3", "holds labels"),
        ("agent:", "a value is missing"),
        ("agent:a,,b", "a value is missing"),
        ('"open', "quotation mark"),
    ],
)
def test_a_text_that_is_no_filter_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        RowFilter(text)


def test_a_column_that_no_row_has_is_an_error() -> None:
    with pytest.raises(ConfigError, match='no column "rewrad"') as raised:
        RowFilter("agent:x rewrad<1").check_columns({"reward"})
    assert "agent, end_reason, failure, outcome, policy_version, reward" in str(raised.value.failure.remedy)
    RowFilter("agent:x length>3 reward<1").check_columns({"reward"})
