"""Known agents, unchanged and offline: each repairs a repository in its sandbox and gets the reward."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harnesses.laws import check_laws, check_linear, main_path
from tests.harnesses.policies import FILE, RIGHT, SUMMARY, DelegatingPolicy, RepairPolicy
from tests.harnesses.repairs import CONFIGS, options_of, play, skip_unless_installed

HARNESSES = sorted(path.stem for path in CONFIGS.glob("*.yaml") if path.stem != "external_agent")
LOOKS = 46
"""Turns before the repair: with them, a rollout has 49 or 50."""

pytestmark = pytest.mark.harnesses


@pytest.mark.parametrize("harness", HARNESSES)
async def test_an_agent_repairs_a_repository_in_50_turns(harness: str, tmp_path: Path) -> None:
    skip_unless_installed(harness)
    policy = RepairPolicy(LOOKS)
    row, record, line_bytes = await play(harness, tmp_path, policy)
    assert (row["reward"], row["_ng_outcome"], row["failure_reason"]) == (1.0, "completed", None)
    assert row["folder_files"] == {FILE: RIGHT}
    output = row["response"]["output"]
    calls = [item["call_id"] for item in output if item["type"] == "function_call"]
    results = [item["call_id"] for item in output if item["type"] == "function_call_output"]
    answers = [item for item in output if item["type"] == "message"]
    assert len(calls) + len(answers) >= LOOKS  # actions are calls, or code in messages
    assert set(results) <= set(calls)
    assert row["_ng_usage"]["output_tokens"] > 0
    check_laws(record, policy.replies)
    assert len(main_path(record)) >= LOOKS + 3
    check_linear(record, line_bytes)


async def test_claude_code_delegates_and_compacts(tmp_path: Path) -> None:
    skip_unless_installed("claude_code")
    policy = DelegatingPolicy(12)
    environment = {**options_of("claude_code")["environment"], "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "120000"}
    row, record, _ = await play("claude_code", tmp_path, policy, environment=environment)
    assert row["reward"] == 1.0
    check_laws(record, policy.replies)
    nodes = record["tree"]["nodes"]
    assert sorted(node["edge"] for node in nodes.values() if node["edge"] != "continues") == [
        "compacts",
        "root",
        "root",
    ]
    (after,) = (node for node in nodes.values() if node["edge"] == "compacts")
    (summary,) = (call for call in record["calls"] if SUMMARY in str(call["response"]))
    assert after["parent"] == summary["model_call_id"]
    assert after["beside"] is not None
    assert nodes[after["parent"]]["untrained"] is nodes[after["beside"]]["untrained"] is None
