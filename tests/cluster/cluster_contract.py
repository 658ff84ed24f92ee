"""The tests of the contract that run in every placement, here on machines with addresses of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster_gym import BIN, CONFIGS, ENVIRONMENT, SCRIPT, replicas
from tests.cluster.namespaces import Machines, machines, running_in, why_not
from tests.cluster.placements import KEYS_VARIABLE
from tests.e2e.gym_run import read_lines, rollout_of

REPOSITORY = Path(__file__).resolve().parents[2]
SUITES = (
    "tests/cli/test_e2e_collect_rollouts.py",
    "tests/e2e/test_computing_verifier.py",
    "tests/e2e/test_control_table.py",
)
DIFFERS = {"_ng_timing", "created_at", "id", "call_id"}
"""The keys of times, and of ids that are random in every run."""

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.mark.parametrize("suite", SUITES)
def test_the_suites_of_the_contract_pass_on_machines(suite: str) -> None:
    with machines(2) as net:
        check_suite(net, suite, "hosts")
        assert [running_in(name) for name in net.names] == [[]] * len(net.names)


def check_suite(net: Machines, suite: str, placement: str) -> None:
    """Run the tests of a suite that have a placement."""
    done = subprocess.run(
        net.command(net.names[0], sys.executable, "-m", "pytest", "-n", "0", "-k", placement, suite),
        cwd=REPOSITORY,
        env={**os.environ, KEYS_VARIABLE: json.dumps(net.keys())},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout


def collected(net: Machines, folder: Path, *placement: str) -> list[Any]:
    """Collect twenty rollouts, and return their rows in the order of their tasks."""
    folder.mkdir()
    words = (
        str(BIN / "ng_e2e_collect_rollouts"),
        f"+config_paths=[{CONFIGS}]",
        *SCRIPT,
        replicas(ENVIRONMENT, "resources_servers", ENVIRONMENT, 3),
        "+num_repeats=4",
        "+output_jsonl_fpath=out.jsonl",
        *placement,
    )
    subprocess.run(
        net.command(net.names[0], *words), cwd=folder, check=True, capture_output=True, timeout=300
    )
    return [comparable(row) for row in sorted(read_lines(folder / "out.jsonl"), key=rollout_of)]


def comparable(value: Any) -> Any:
    """Return a row without what differs between two runs of the same policy."""
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items() if key not in DIFFERS}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def test_rows_are_the_same_in_every_placement(tmp_path: Path) -> None:
    with machines(2) as net:
        rows = collected(net, tmp_path / "hosts", *net.keys())
        assert len(rows) == 20
        for placement in ("process", "inline"):
            assert collected(net, tmp_path / placement, f"+placement={placement}") == rows
