"""Environments of ours through the taskset `nemo_gym` of verifiers, unmodified: the rewards of our own agent."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sources.foreign.kinds import KINDS
from tests.foreign.ours import (
    EXAMPLES,
    LAZY,
    MOST_ROWS,
    ROOT,
    read_gold,
    run_agent,
    running_engine,
    running_gym,
)

pytestmark = pytest.mark.foreign

NATIVE = Path(__file__).with_name("native_nemo_gym.py")
TOKEN = "a-token-of-the-test"


@pytest.fixture(scope="module")
def python(find_python: Callable[[str], Path]) -> Path:
    if "verifiers" not in KINDS:
        pytest.skip("the kind verifiers is not here")
    return find_python("verifiers")


def play(python: Path, name: str, url: str, engine: str) -> list[dict[str, Any]]:
    dataset = ROOT / "resources_servers" / name / "data" / "example.jsonl"
    given = {"dataset": str(dataset), "url": url, "token": TOKEN, "engine": engine, "rows": MOST_ROWS}
    done = subprocess.run([python, NATIVE, json.dumps(given)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("policy", ["gold", "lazy"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_rewards_are_those_of_our_own_agent(name: str, policy: str, python: Path, tmp_path: Path) -> None:
    served = [name, "--openenv", "0", f"+run_token={TOKEN}"]
    with running_engine(tmp_path, read_gold(name) if policy == "gold" else LAZY) as engine:
        rows = run_agent(tmp_path, name, engine)
        with running_gym(tmp_path, *served, announced=rf"ready in .*: {name} (http://\S+)") as found:
            played = play(python, name, found[1], engine.base_url)
    assert [each["errors"] for each in played] == [[]] * len(rows)
    assert [each["reward"] for each in played] == [row["reward"] for row in rows]
    for each, row in zip(played, rows, strict=True):
        assert {key: float(row[key]) for key in each["metrics"] if key in row} == {
            key: value for key, value in each["metrics"].items() if key in row
        }
    assert ({row["reward"] for row in rows} == {1.0}) == (policy == "gold")
