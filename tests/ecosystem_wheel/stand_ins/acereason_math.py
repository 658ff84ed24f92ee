"""A stand-in for the verifiers environment `acereason-math`, which PyPI does not have: one question and its answer."""

from __future__ import annotations

from typing import Any

import verifiers as vf
from datasets import Dataset


def load_environment() -> Any:
    """Return an environment that rewards an answer which contains the expected one."""
    rows = Dataset.from_list([{"question": "What is 2 + 2?", "answer": "4"}])

    async def contains(completion: Any, answer: str, **_: object) -> float:
        return float(answer in completion[-1]["content"])

    return vf.SingleTurnEnv(dataset=rows, eval_dataset=rows, rubric=vf.Rubric(funcs=[contains]))
