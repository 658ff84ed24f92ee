"""The blocks of the page on several machines. Stand-ins for SSH and Slurm start the node hosts on this machine.

A real Slurm is not part of the tests: they prove the words that the script gives to `srun`, and what runs under it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.snippets import DOCS, snippets_of

STAND_INS = {
    "ssh": 'test "$1 $2" = "-o BatchMode=yes" && shift 3 && exec sh -c "$*"',
    "srun": 'while test "${1#--}" != "$1"; do shift; done; exec "$@"',
    "scontrol": 'test "$*" = "show hostnames node[1-2]" && echo node1 && echo node2',
    "hostname": "echo 127.0.0.1 192.0.2.1",
}
"""Name → what it executes, after it has written its words down."""
CONFIG = """
config_paths:
- resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml
- responses_api_models/scripted_model/configs/scripted_model.yaml
"""
BLOCKS = {
    snippet.text.count("srun") > 0: snippet.text
    for snippet in snippets_of((DOCS / "cluster.md").read_text(encoding="utf-8"))
    if snippet.mark == "run by"
}
"""The script for Slurm, and the command for SSH."""


@pytest.mark.parametrize("is_slurm", [False, True], ids=["ssh", "slurm"])
def test_the_block_collects_on_its_hosts(is_slurm: bool, tmp_path: Path) -> None:
    stand_ins, calls = tmp_path / "bin", tmp_path / "calls.txt"
    for folder in (stand_ins, tmp_path / "configs", tmp_path / "runtime"):
        folder.mkdir(mode=0o700)
    (tmp_path / "configs" / "math.yaml").write_text(CONFIG)
    for name, script in STAND_INS.items():
        (stand_ins / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n{script}\n')
        (stand_ins / name).chmod(0o700)
    done = subprocess.run(
        ["bash", "-eu", "-c", BLOCKS[is_slurm]],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{stand_ins}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SLURM_JOB_NODELIST": "node[1-2]",
            "XDG_RUNTIME_DIR": str(tmp_path / "runtime"),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {row["reward"] for row in rows} == {1.0}
    started = [line for line in calls.read_text().splitlines() if "node_host" in line]
    command = "srun --overlap --nodes=1 --ntasks=1 --nodelist=" if is_slurm else "ssh -o BatchMode=yes "
    assert [line.split(f" {sys.executable}")[0] for line in sorted(started)] == [
        f"{command}node1",
        f"{command}node2",
    ]
