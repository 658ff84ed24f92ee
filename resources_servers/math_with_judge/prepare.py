"""Convert GSM8K rows (`{"question", "answer"}`, the answer ending in `#### <number>`) to task rows.

python prepare.py --input test.jsonl --output data/gsm8k_test.jsonl
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.datasets.making import convert_rows, converter_options, write_rows
from nemo_gym.rows.compose import compose_task_row

PROMPT = (
    "Solve the following problem. Put the final answer, and nothing else, inside \\boxed{{}}.\n\n{question}"
)
ANSWER_MARK = "####"


def task_row(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the task row of one GSM8K row. Raises ValueError when its answer has no `####`."""
    question = row["question"].strip()
    _, mark, number = row["answer"].rpartition(ANSWER_MARK)
    if not mark or not number.strip():
        raise ValueError(f"no answer after {ANSWER_MARK!r}: {row['answer']!r}")
    return compose_task_row(
        [{"role": "user", "content": PROMPT.format(question=question)}],
        question=question,
        expected_answer=number.strip().replace(",", ""),
    )


def main(arguments: list[str] | None = None) -> None:
    options = converter_options(__doc__, arguments)
    write_rows(convert_rows(options.input, task_row), options.output)


if __name__ == "__main__":
    main()
