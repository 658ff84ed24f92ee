"""The commands of the pages on several machines. Stand-ins for SSH and Slurm start the node hosts on this machine.

`tests/cluster/cluster_slurm.py` runs the script on a real Slurm, where there is one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.snippets import DOCS, snippets_of
from nemo_gym import PARENT_DIR

STAND_INS = {
    "ssh": 'test "$1 $2" = "-o BatchMode=yes" && shift 3 && exec sh -c "$*"',
    "sbatch": 'test "$1" = "--nodes=2" && shift && exec bash "$@"',
    "srun": 'while test "${1#--}" != "$1"; do shift; done; SLURM_LAUNCH_NODE_IPADDR=127.0.0.1 exec "$@"',
    "scontrol": 'test "$*" = "show hostnames node[1-2]" && echo node1 && echo node2',
}
"""Name → what it executes, after it has written its words down."""
CONFIG = """
config_paths:
- resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml
- responses_api_models/scripted_model/configs/scripted_model.yaml
"""


def command_of(page: str) -> str:
    """The block of the page that this test executes."""
    snippets = snippets_of((DOCS / page).read_text(encoding="utf-8"))
    (text,) = [each.text for each in snippets if each.value == "tests/docs/test_cluster_page.py"]
    return text


@pytest.mark.parametrize(
    ("page", "starter"),
    [
        ("cluster.md", "ssh -o BatchMode=yes "),
        ("cluster_recipes.md", "srun --overlap --nodes=1 --ntasks=1 --nodelist="),
    ],
    ids=["ssh", "slurm"],
)
def test_the_block_collects_on_its_hosts(page: str, starter: str, tmp_path: Path) -> None:
    stand_ins, calls = tmp_path / "bin", tmp_path / "calls.txt"
    for folder in (stand_ins, tmp_path / "configs", tmp_path / "runtime"):
        folder.mkdir(mode=0o700)
    (tmp_path / "configs" / "math.yaml").write_text(CONFIG)
    (tmp_path / "examples").symlink_to(PARENT_DIR / "examples")
    for name, script in STAND_INS.items():
        (stand_ins / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {calls}\n{script}\n')
        (stand_ins / name).chmod(0o700)
    done = subprocess.run(
        ["bash", "-eu", "-c", command_of(page)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{stand_ins}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "1",
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
    assert [line.split(f" {sys.executable}")[0] for line in sorted(started)] == [
        f"{starter}node1",
        f"{starter}node2",
    ]
