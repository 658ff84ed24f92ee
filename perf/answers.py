"""Answers of a competent policy to the example tasks, on which verifiers do their full work.

For environments that are not listed here, the answer is the row's expected answer in a box or, if the task needs tools,
the scripted policy's text after its tool calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

Row = Mapping[str, Any]


def answer_to(environment: str, row: Row) -> str | None:
    """Return the answer to a task row, or None if the row has none."""
    return _ANSWERS.get(environment, _boxed)(row)


def _boxed(row: Row) -> str | None:
    expected = row.get("expected_answer", row.get("answer"))
    first = expected[0] if isinstance(expected, list) and expected else expected
    return None if first is None else f"The answer is \\boxed{{{first}}}."


def _tagged(row: Row) -> str:
    return f"<answer>{row['answer']}</answer>"


def _rewritten(row: Row) -> str:
    """Return the expected answer in another form, which requires a mathematical comparison."""
    return f"The answer is \\boxed{{0 + {row['expected_answer']}}}."


def _program(row: Row) -> str:
    """Return a program that fails its first test, so the sandbox causes the cost."""
    return "```python\nimport sys\n\nprint(sorted(sys.stdin.read().split()))\n```"


def _query(row: Row) -> str:
    return f"```sql\n{row['sql']}\n```"


def _document(row: Row) -> str | None:
    if row.get("schema_type", "json").lower() != "json" or "expected" not in row:
        return None
    return orjson.dumps(row["expected"]).decode()


def _calendar(row: Row) -> str:
    events = [
        {"event_id": int(number), "event_name": f"event {number}", "start_time": wanted["min_time"],
         "duration": wanted["duration"]}
        for number, wanted in row["exp_cal_state"].items()
    ]  # fmt: skip
    return orjson.dumps(events).decode()


def _essay(row: Row) -> str:
    return "The sky is blue because small particles scatter the short waves of the light most.\n\n" * 12


_ANSWERS: Mapping[str, Callable[[Row], str | None]] = {
    "calendar": _calendar,
    "code_gen": _program,
    "instruction_following": _essay,
    "math_with_judge": _rewritten,
    "reasoning_gym": _tagged,
    "rubric_judge": _essay,
    "structured_outputs": _document,
    "text_to_sql": _query,
}
