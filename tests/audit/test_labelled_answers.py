"""GSM8K's recorded answers: what the labels say of a verifier, beside what the probes say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from nemo_gym.audit.answer_audit import RowProbes
from nemo_gym.audit.outcomes import Conclusion
from nemo_gym.audit.probing import Prober
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.moving_caller import build_caller
from resources_servers.math_with_judge.app import LibraryJudgeMathResourcesServer
from resources_servers.math_with_judge.prepare import task_row

GSM8K = Path(__file__).resolve().parents[3] / "shared" / "data" / "gsm8k"
ROWS = 200


@pytest.mark.skipif(not GSM8K.is_dir(), reason=f"{GSM8K} has no recorded answers")
async def test_labels_and_probes_find_no_error_of_the_math_verifier() -> None:
    questions = [json.loads(line) for line in (GSM8K / "test.jsonl").read_text().splitlines()[:ROWS]]
    recorded = (GSM8K / "recorded_6b_finetuning.jsonl").read_text().splitlines()[:ROWS]
    answers = [json.loads(line) for line in recorded]
    gym = InProcessGym()
    gym.add(LibraryJudgeMathResourcesServer, "math", should_use_judge=False)
    by_label: Counter[tuple[bool, float | None]] = Counter()
    probed: Counter[Conclusion] = Counter()
    async with gym.running():
        prober = Prober(build_caller(gym.config, gym.transport, None), "math", seeds=False)
        probes = RowProbes(prober, 0)
        for place, (question, answer) in enumerate(zip(questions, answers, strict=True)):
            row = task_row(question)
            verdict = await prober.attempt(row, answer["solution"])
            by_label[answer["is_correct"], verdict.reward] += 1
            for outcome in await probes.probe(f"task {place}", row) if place < 20 else ():
                probed[outcome.conclusion] += 1
    assert set(by_label) == {(True, 1.0), (False, 0.0)}
    assert set(probed) == {Conclusion.RIGHT}
