"""The stage `rewards`: the stored rollouts of environments, verified again over HTTP, get their stored rewards.

`ng_reverify` starts the resources server of the wheel with its configuration unchanged. Rows that were collected by an
agent of another name are given the configuration's, and every row the fields of its task. The environments need no
judge, no session and no package that the shared environment lacks.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.ecosystem_wheel import runs, wheel
from tests.ecosystem_wheel.causes import Cause
from tests.ecosystem_wheel.stages import PROCESSES, Finding, Workplace

ENVIRONMENTS = {
    **{
        name: f"{name}.yaml"
        for name in (
            *("arc_agi", "bbq", "calendar", "circle_click", "circle_count", "citation_if"),
            *(
                "example_multi_step",
                "example_single_tool_call",
                "gpqa_diamond",
                "graphwalks",
                "gui_coordinate",
            ),
            *("iheval", "lc_niah", "mcqa", "mrcr", "ragtruth", "ruler", "spartqa", "speed_bench"),
            *("string_match", "text_to_sql", "xlam_fc"),
        )
    },
    "equivalence_rule": "lc.yaml",
}
"""Folder of `resources_servers/` → its configuration."""


def rewards(workplace: Workplace, wanted: Sequence[str]) -> list[Finding]:
    """Verify the stored rollouts of every environment, or of those that `wanted` names."""
    runs.lay_root()
    names = [name for name in ENVIRONMENTS if not wanted or name in wanted]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(lambda name: _reverify(workplace, name, Path(folder) / name), names))


def _reverify(workplace: Workplace, name: str, folder: Path) -> Finding:
    folder.mkdir()
    home = Path("resources_servers") / name
    configuration = home / "configs" / ENVIRONMENTS[name]
    stored = folder / "stored.jsonl"
    _write_rows(wheel.TREE / home / "data", _agent_of(configuration), stored)
    line = [
        f"+config_paths=[{configuration},{runs.MODEL_FILE}]",
        f"+input_jsonl_fpath={stored}",
        "+output_jsonl_fpath=again.jsonl",
        *("+policy_base_url=http://127.0.0.1:9/v1", "+policy_model_name=none", "+policy_api_key=none"),
        *("+force=true", "++head_server.port=0"),
    ]
    output = runs.run_command(workplace, "ng_reverify", line, folder)
    before, after = _rewards_of(stored), _rewards_of(folder / "again.jsonl")
    wrong = [index for index, reward in enumerate(before) if after[index : index + 1] != [reward]]
    print(f"{name}: {before} {after}", "" if after else output[-600:], file=sys.stderr, flush=True)
    if not after:
        return Finding(name, [workplace.cause(_failure_in(folder) or output)])
    return Finding(name, [Cause("another reward", f"{len(wrong)} of {len(before)} rows")] if wrong else [])


def _agent_of(configuration: Path) -> str:
    """Return the first agent of a configuration."""
    content = yaml.safe_load((wheel.TREE / configuration).read_text(encoding="utf-8"))
    agent: str = next(name for name, block in content.items() if "responses_api_agents" in block)
    return agent


def _write_rows(data: Path, agent: str, target: Path) -> None:
    """Write the stored rows with the fields of their tasks, which some verifiers did not repeat."""
    tasks, rows = (_lines_of(data / f"{name}.jsonl") for name in ("example", "example_rollouts"))
    reference = {"agent_ref": {"type": "responses_api_agents", "name": agent}}
    whole = []
    for number, row in enumerate(rows):
        row = {"_ng_task_index": number, "_ng_rollout_index": 0} | row
        task = tasks[row["_ng_task_index"]] if row["_ng_task_index"] < len(tasks) else {}
        whole.append(json.dumps(task | row | reference) + "\n")
    target.write_text("".join(whole), encoding="utf-8")


def _lines_of(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def _failure_in(folder: Path) -> str:
    """Return the message of the first failed rollout."""
    file = folder / "again_failures.jsonl"
    first = file.read_text(encoding="utf-8").partition("\n")[0] if file.is_file() else ""
    return str(json.loads(first)["_ng_failure"]["message"]) if first else ""


def _rewards_of(file: Path) -> list[Any]:
    """Return the rewards of a file in the order of its tasks."""
    ordered = sorted(
        _lines_of(file), key=lambda row: (row.get("_ng_task_index", 0), row.get("_ng_rollout_index", 0))
    )
    return [row.get("reward") for row in ordered]
