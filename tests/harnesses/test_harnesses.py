"""Known agents, unchanged and offline: each repairs a repository in its sandbox and gets the reward."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harnesses.repairs import CONFIGS, FILE, INSTALLED, RIGHT, play

HARNESSES = sorted(path.stem for path in CONFIGS.glob("*.yaml") if path.stem != "external_agent")

pytestmark = pytest.mark.harnesses


@pytest.mark.parametrize("harness", HARNESSES)
async def test_an_agent_repairs_a_repository(harness: str, tmp_path: Path) -> None:
    error = INSTALLED / "errors" / harness
    if not (INSTALLED / "errors" / f"{harness}.none").exists():
        reason = error.read_text(errors="replace")[-500:] if error.exists() else "run `make test-harnesses`"
        pytest.skip(f"{harness} is not installed: {reason}")
    row = await play(harness, tmp_path)
    assert (row["reward"], row["_ng_outcome"], row["failure_reason"]) == (1.0, "completed", None)
    assert row["folder_files"] == {FILE: RIGHT}
    output = row["response"]["output"]
    calls = [item["call_id"] for item in output if item["type"] == "function_call"]
    results = [item["call_id"] for item in output if item["type"] == "function_call_output"]
    assert len(calls) >= 2
    assert set(results) <= set(calls)
    assert row["external_agent"]["calls"] >= 3
    assert row["_ng_usage"]["output_tokens"] > 0
