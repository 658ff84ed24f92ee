"""A run in which too many calls are masked fails, with every row on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.tokens.records import RECORD_FIELD
from nemo_gym.transport import InMemoryTransport
from tests.rollouts.doubles import AGENT, read_rows, scored, write_dataset

GYM = DiscoveredGym(
    {AGENT: {"responses_api_agents": {"simple": {"host": "127.0.0.1", "port": 1}}}}, token=None
)


async def answer_ok(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


class MaskingAgents:
    """Every attempt has ten model calls, of which the given number is masked."""

    def __init__(self, masked: int) -> None:
        self.masked = masked

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        records = [{"call": n, "masked": "invalid_logprobs"} for n in range(self.masked)]
        records += [{"call": n, "sequence": "x"} for n in range(10 - self.masked)]
        output = [{"type": "message", RECORD_FIELD: record} for record in records]
        return scored(task, response={"output": output})


async def run(folder: Path, masked: int, **settings: Any) -> CollectSummary:
    dataset = write_dataset(folder / "tasks.jsonl", 4)
    given = CollectSettings(
        datasets=(DatasetFile(dataset, 1, AGENT, None),), output=folder / "out.jsonl", **settings
    )
    caller = GYM.caller(InMemoryTransport({"http://127.0.0.1:1": answer_ok}))
    return await collect(given, caller, GYM, attempter=MaskingAgents(masked))


@pytest.mark.parametrize(("masked", "most", "code"), [(0, 0.0, 0), (1, 0.05, 1), (1, 0.1, 0), (10, 1.0, 0)])
async def test_the_run_fails_above_the_threshold(tmp_path: Path, masked: int, most: float, code: int) -> None:
    summary = await run(tmp_path, masked, max_masked_fraction=most)
    assert summary.exit_code == code
    assert len(read_rows(tmp_path / "out.jsonl")) == 4
    if code:
        assert summary.stop is not None
        assert summary.stop.code == "too_many_masked"
        assert "4 of 40 model calls (10.0%)" in summary.stop.message
        assert "invalid_logprobs 4" in summary.stop.message


async def test_rows_of_earlier_starts_count(tmp_path: Path) -> None:
    await run(tmp_path, 1, max_masked_fraction=1.0)
    summary = await run(tmp_path, 0, max_masked_fraction=0.05, existing=Existing.RESUME)
    assert summary.exit_code == 1
