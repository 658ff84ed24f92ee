"""The stage `rewards`: the stored rollouts of environments, verified again over HTTP, get their stored rewards.

`ng_reverify` starts the resources server of the wheel with its configuration unchanged. Rows that were collected by an
agent of another name are given the configuration's. The environments need no session and no package that the shared
environment lacks. `REASONS` holds the reasons of stored rewards that differ, found by running the same rows through the
wheel's own core.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.path_utils import materialized_path_for
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
STALE = "stale: the ecosystem's own core gives our rewards today"
REASONS = {
    "bbq": "a judge is needed, and the stored rows have no request",
    "iheval": "the task of a stored row is not in the example file, and the server fails on the fields of its answer",
    "lc_niah": STALE,
    "mcqa": STALE,
    "ruler": "the stored rows lack fields of their tasks, which are not in the example file",
    "speed_bench": "the server asks the policy's engine for its metrics",
    "text_to_sql": "a judge is needed",
}
"""Folder → why its stored rewards differ."""


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
    _write_run(wheel.TREE / home / "data", _agent_of(configuration), stored)
    line = [
        f"+config_paths=[{configuration},{runs.MODEL_FILE}]",
        f"+input_jsonl_fpath={stored}",
        "+output_jsonl_fpath=again.jsonl",
        *("+policy_base_url=http://127.0.0.1:9/v1", "+policy_model_name=none", "+policy_api_key=none"),
        *("+force=true", "++head_server.port=0"),
    ]
    output = runs.run_command(workplace, "ng_reverify", line, folder)
    before, after = _rewards_of(stored), _rewards_of(folder / "again.jsonl")
    wrong = [index for index, reward in before.items() if after.get(index) != reward]
    failure = _failure_in(folder) or output
    print(
        f"{name}: {before} {after}",
        failure[-600:] if len(after) < len(before) else "",
        file=sys.stderr,
        flush=True,
    )
    if not wrong:
        return Finding(name)
    if name in REASONS:
        return Finding(name, [Cause(REASONS[name])])
    return Finding(
        name,
        [
            Cause("another reward", f"{len(wrong)} of {len(before)} rows")
            if after
            else workplace.cause(failure)
        ],
    )


def _agent_of(configuration: Path) -> str:
    """Return the first agent of a configuration."""
    content = yaml.safe_load((wheel.TREE / configuration).read_text(encoding="utf-8"))
    agent: str = next(name for name, block in content.items() if "responses_api_agents" in block)
    return agent


def _write_run(data: Path, agent: str, rows_file: Path) -> None:
    """Write the stored rollouts as a run: its rows, and the tasks that the example file still has.

    The task of a rollout is the one with its input, because many files list tasks and rollouts in different orders.
    Rows are numbered by their lines.
    """
    tasks, rows = (_lines_of(data / f"{name}.jsonl") for name in ("example", "example_rollouts"))
    by_input = {_input_of(task): task for task in tasks}
    reference = {"agent_ref": {"type": "responses_api_agents", "name": agent}}
    stored, inputs = [], []
    for number, row in enumerate(rows):
        stamps = {"_ng_task_index": number, "_ng_rollout_index": 0, **reference}
        stored.append({**row, **stamps})
        if (task := by_input.get(_input_of(row))) is not None:
            inputs.append({**task, **stamps})
    for file, lines in ((rows_file, stored), (materialized_path_for(rows_file), inputs)):
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _input_of(row: Mapping[str, Any]) -> str:
    """Return the input of a row as text that is the same in a task and in its rollout."""
    given = row.get("responses_create_params", {}).get("input", [])
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return json.dumps([(message.get("role"), _text_of(message.get("content"))) for message in messages])


def _text_of(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [part.get("text") or part.get("image_url") for part in content]


def _lines_of(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def _failure_in(folder: Path) -> str:
    """Return the message of the first failed rollout."""
    file = folder / "again_failures.jsonl"
    first = file.read_text(encoding="utf-8").partition("\n")[0] if file.is_file() else ""
    return str(json.loads(first)["_ng_failure"]["message"]) if first else ""


def _rewards_of(file: Path) -> dict[int, Any]:
    """Return the rewards of a file by the numbers of its tasks."""
    return {row["_ng_task_index"]: row.get("reward") for row in _lines_of(file)}
