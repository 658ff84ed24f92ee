from __future__ import annotations

import itertools
import json
from pathlib import Path

from nemo_gym.audit.probing import Prober, build_answer
from nemo_gym.audit.rollout_audit import read_rollouts, verify_again
from nemo_gym.audit.rollout_signs import CHANGED, ONE_ANSWER
from tests.audit.planted_verifiers import NUMBERS, is_number, open_gym


def write_run(folder: Path) -> Path:
    file = folder / "run.jsonl"
    rows = []
    for row in NUMBERS:
        text = f"\\boxed{{{row['expected_answer']}}}"
        rows.append({**row, "response": build_answer(row, text), "reward": 1.0, "right": True})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


async def test_a_second_verdict_that_differs_is_a_sign(tmp_path: Path) -> None:
    turns = itertools.count()
    report = read_rollouts(write_run(tmp_path))
    assert CHANGED not in report.by_sign
    gym, caller = open_gym(lambda text, row: is_number(text, row) and next(turns) % 3 < 2)
    async with gym.running():
        await verify_again(report, Prober(caller, "planted", seeds=False), most=6)
    assert report.verified_again == 6
    assert len(report.by_sign[CHANGED]) == 2
    assert any("the reward was 1, and is 0 now" in line for line in report.write_text())


async def test_rollouts_without_a_second_verdict_are_counted(tmp_path: Path) -> None:
    report = read_rollouts(write_run(tmp_path), label="right")
    gym, caller = open_gym(lambda text, row: 1 // 0 == 0)
    async with gym.running():
        await verify_again(report, Prober(caller, "planted", seeds=False), most=4)
    assert report.verified_again == 0
    assert "4 rollouts have no second verdict" in report.notes[0]
    assert report.as_json()["agreement"]["rollouts"] == len(NUMBERS)
    assert report.by_sign[ONE_ANSWER] == []
