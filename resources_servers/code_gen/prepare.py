"""Convert HumanEval rows (`task_id`, `prompt`, `entry_point`, `test`) to task rows.

python prepare.py --input HumanEval.jsonl --output data/humaneval.jsonl

The file: https://github.com/openai/human-eval (MIT).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.datasets.making import convert_rows, converter_options, write_rows
from nemo_gym.rows.compose import compose_task_row

PROMPT = """\
Complete the following Python function. Answer with the whole function in one ```python block; imports and helpers \
of your own may stand beside it.

```python
{code}
```"""
NEEDED = ("task_id", "prompt", "entry_point", "test")


def task_row(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task row of one HumanEval row. Raises ValueError that lists the missing fields."""
    missing = [name for name in NEEDED if not isinstance(problem.get(name), str)]
    if missing:
        raise ValueError(f"missing: {', '.join(missing)}")
    content = PROMPT.format(code=problem["prompt"].strip())
    needed = {name: problem[name] for name in NEEDED}
    return compose_task_row([{"role": "user", "content": content}], metadata=needed)


def main(arguments: list[str] | None = None) -> None:
    options = converter_options(__doc__, arguments)
    write_rows(convert_rows(options.input, task_row), options.output)


if __name__ == "__main__":
    main()
