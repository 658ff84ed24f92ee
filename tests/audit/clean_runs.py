"""Clean runs, on which the false alarms of the signs of hacking are counted: `python -m tests.audit.clean_runs`.

The rows of a model's recorded answers to GSM8K, HumanEval's own solutions, the gold scripts of our environments, and
the example rollouts of the ecosystem's environments, by models that were not trained on them. Nothing of these data is
in the repository: the counts in `nemo_gym/audit/rollout_signs.py` are of a machine that has all of them.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.audit.gold_scripts import find_script, read_gold_scripts
from nemo_gym.audit.probing import build_answer
from nemo_gym.audit.rollout_signs import SIGNS, SignReader
from resources_servers.math_with_judge.prepare import task_row

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
Run = Iterable[Mapping[str, Any]]


def list_gsm8k() -> Iterator[dict[str, Any]]:
    """Yield a real model's answers with the labels as rewards."""
    questions = (SHARED / "gsm8k" / "test.jsonl").read_text().splitlines()
    answers = (SHARED / "gsm8k" / "recorded_6b_finetuning.jsonl").read_text().splitlines()
    for question, line in zip(questions, answers, strict=True):
        row, answer = task_row(json.loads(question)), json.loads(line)
        reward = float(answer["is_correct"])
        yield {
            **row,
            "response": build_answer(row, answer["solution"]),
            "reward": reward,
            "label": bool(reward),
        }


def list_humaneval() -> Iterator[dict[str, Any]]:
    for line in (SHARED / "humaneval" / "HumanEval.jsonl").read_text().splitlines():
        task = json.loads(line)
        row = {"responses_create_params": {"input": task["prompt"]}}
        answer = build_answer(row, f"```python\n{task['prompt']}{task['canonical_solution']}```")
        yield {**row, "response": answer, "reward": 1.0}


def list_gold(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the declared right attempts at the rows of a file."""
    scripts = read_gold_scripts(file)
    for line in file.read_text().splitlines():
        row = json.loads(line)
        if script := find_script(scripts, row):
            calls = [
                {
                    "type": "function_call",
                    "name": name,
                    "call_id": str(at),
                    "arguments": json.dumps(arguments),
                }
                for at, (name, arguments) in enumerate(script.calls)
            ]
            yield {**row, "response": build_answer(row, script.text, calls), "reward": 1.0}


def list_ecosystem(tree: Path) -> Iterator[Run]:
    for file in sorted(tree.glob("*/*/data/*rollouts*.jsonl")):
        try:
            yield [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except ValueError:
            continue  # a few files have indented JSON


def list_runs() -> Iterator[tuple[str, Run]]:
    """Yield the clean runs that this machine has, with their source."""
    for file in sorted((PARENT_DIR / "resources_servers").glob("*/data/example.jsonl")):
        yield "gold scripts of our environments", list_gold(file)
    if SHARED.is_dir():
        yield "GSM8K", list_gsm8k()
        yield "HumanEval", list_humaneval()
    cache = Path(os.environ.get("NEMO_GYM_ECOSYSTEM_CACHE") or Path.home() / ".cache" / "nemo_gym_ecosystem")
    for run in list_ecosystem(cache / "tree-0.7.0"):
        yield "example rollouts of the ecosystem", run


def count_alarms(runs: Iterable[tuple[str, Run]]) -> tuple[Counter[str], Counter[str]]:
    """Return the clean rollouts with each sign, and the rollouts that were looked at by source."""
    alarms: Counter[str] = Counter()
    wins: Counter[str] = Counter()
    for source, rows in runs:
        signs = SignReader()
        for line, row in enumerate(rows, 1):
            signs.add(line, row)
        wins[source] += signs.wins
        found = {(finding.sign, finding.line) for finding in signs.finish()}
        alarms.update(name for name, _ in found)
    return alarms, wins


def main() -> int:
    alarms, wins = count_alarms(list_runs())
    for source, count in wins.items():
        print(f"{count:6,} clean rollouts: {source}")  # noqa: T201
    for name in SIGNS:
        print(f"{alarms[name]:6,} of {wins.total():,} have the sign {name!r}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
