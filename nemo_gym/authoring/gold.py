"""The gold of an environment, played: the right replies to its example tasks must get the best reward.

`data/example_gold.yaml` is a script of the engine stub. The scripted model sends its replies through the real servers,
in processes of their own, as users run them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import orjson

from nemo_gym.authoring.implementations import Implementation
from nemo_gym.config.spelling import spell
from nemo_gym.json_objects import finite_number
from nemo_gym.rows.identity import read_task_index
from nemo_gym.rows.verdict import read_answer_fault, read_reward

GOLD_FILE = Path("data", "example_gold.yaml")
WITHIN_S = 600.0
"""A run of some example tasks that takes longer hangs."""
_SCRIPTED = "responses_api_models/scripted_model/configs/scripted_model.yaml"
_COLLECT = """\
import sys
from nemo_gym.cli.command import typed_as
from nemo_gym.cli.e2e_collect_rollouts import main
with typed_as(sys.argv.pop(1)):
    main()
"""
_TOLERANCE = 1e-6
_MOST_PRINTED = 4_000
"""Characters of a failed run's output that are shown."""


@dataclass(frozen=True, slots=True)
class GoldResult:
    """The rewards of the gold."""

    implementation: Implementation
    tasks: int = 0
    faults: tuple[str, ...] = ()
    """One for each task that did not get its best reward, or why none was attempted."""

    @property
    def is_best(self) -> bool:
        return not self.faults

    def describe(self) -> str:
        name = f"{self.implementation.entrypoint}: gold"
        if self.is_best:
            return f"{name}: all {self.tasks} example tasks get their best reward"
        return "\n".join([f"{name}: failed", *(f"  {fault}" for fault in self.faults)])


def find_gold(implementation: Implementation) -> Path | None:
    """Return the file with the gold of an environment; None if it has none, or is no environment."""
    file = implementation.folder / GOLD_FILE
    return file if implementation.kind == "resources_servers" and file.is_file() else None


def play_gold(implementation: Implementation, script: Path, typed: str) -> GoldResult:
    """Attempt the example tasks with the replies of `script`. `typed` is the command with which messages begin."""
    configs = implementation.configs
    named = [path for path in configs if path.stem == implementation.name] or configs[:1]
    if not named:
        return GoldResult(implementation, faults=("it has no configuration in configs/",))
    engine = {"policy": "script", "script": str(script)}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "gold.jsonl"
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                _COLLECT,
                typed,
                f"+config_paths={spell([str(named[0]), _SCRIPTED])}",
                f"++policy_model.responses_api_models.scripted_model.engine={spell(engine)}",
                f"+output_jsonl_fpath={spell(str(output))}",
                "+split=example",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        rows = output.read_bytes().splitlines() if output.is_file() else []
    faults = [fault for line in rows if (fault := _find_fault(line))]
    if done.returncode != 0 or not rows:
        # The closing lines are about the files of the run, which are gone.
        kept = takewhile(lambda line: folder not in line, done.stdout.strip().splitlines())
        printed = "\n".join([*kept, done.stderr.strip()])[-_MOST_PRINTED:]
        faults.append(f"the run ended with exit code {done.returncode}:\n{printed}")
    return GoldResult(implementation, len(rows), tuple(faults))


def _find_fault(line: bytes) -> str | None:
    """Return why a scored row is not the best one of its task."""
    row = orjson.loads(line)
    reward, best = read_reward(row), finite_number(row.get("best_reward"))
    best = 1.0 if best is None else best
    if reward is not None and abs(reward - best) <= _TOLERANCE:
        return None
    fault = read_answer_fault(row)
    cause = "" if fault is None else f"; `verify` broke on the answer: {fault}"
    return f"task {read_task_index(row)}: reward {reward}, and the best is {best:g}{cause}"
