"""A right solution of each example task by task_id, from the gold file."""

from __future__ import annotations

from pathlib import Path

import yaml

from nemo_gym.testing import read_rows
from nemo_gym.verify.code_blocks import PYTHON_LANGUAGES, final_code

_DATA = Path(__file__).parents[1] / "data"


def _read_gold() -> dict[str, str]:
    scenes = yaml.safe_load((_DATA / "example_gold.yaml").read_text(encoding="utf-8"))
    solutions = {}
    for task, scene in zip(read_rows(_DATA / "example.jsonl"), scenes, strict=True):
        code = final_code(scene["turns"][0]["text"], PYTHON_LANGUAGES)
        assert code is not None, scene["match"]
        solutions[task["verifier_metadata"]["task_id"]] = code
    return solutions


GOLD = _read_gold()
