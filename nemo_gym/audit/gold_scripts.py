"""Right attempts that an author declares beside the rows, in the form of scripts for the engine stub.

    - match: "Remind me about the bread"          # a part of the task's prompt; the first scene that matches counts
      turns:
      - tool_calls: [{name: set_timer, arguments: {minutes: 25}}]
      - text: "It is set."

The file of `data/example.jsonl` is `data/example_gold.yaml`; that of `data/tasks.v2.jsonl.gz` is
`data/tasks.v2_gold.yaml`. Stored rollouts with the best reward can stand for them: `read_gold_rollouts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.audit.answer_types import read_conversation
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import parse_json
from nemo_gym.rollouts.lookback.health.rows import CheckedRow
from nemo_gym.rollouts.lookback.stored import find_results
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.verdict import is_scored, read_reward


@dataclass(frozen=True, slots=True)
class GoldScript:
    """A right attempt at the task whose prompt contains `match`."""

    match: str
    calls: Sequence[tuple[str, Mapping[str, Any]]]
    text: str
    is_declared: bool = True
    """False for a stored rollout, which may have been right in another state of the world."""


def read_gold_rollouts(file: Path) -> list[GoldScript]:
    """Return the rollouts of a run that have a reward of 1 or more, each as the script of its task.

    Raises `ConfigError` if there is no such run.
    """
    scripts: dict[str, GoldScript] = {}
    for line in read_lines(find_results(file).rows):
        row = read_object(line.content, f"{file}:{line.number}", code="malformed_rows")
        if is_scored(row) and (read_reward(row) or 0) >= 1:
            checked = CheckedRow(line.number, RolloutId(0, 0), row)
            text = checked.turns[-1].texts[-1] if checked.turns and checked.turns[-1].texts else ""
            calls = [(call.name, _read_arguments(call.arguments)) for call in checked.calls]
            prompt = read_conversation(row)
            scripts.setdefault(prompt, GoldScript(prompt, calls, text, is_declared=False))
    return list(scripts.values())


def read_gold_scripts(rows: Path) -> list[GoldScript]:
    """Return the scripts beside a file of rows; none if there is no such file. Raises `ConfigError`."""
    stem = re.sub(r"(\.jsonl)?(\.gz|\.zst)?$", "", rows.name)
    file = rows.with_name(f"{stem}_gold.yaml")
    if not file.is_file():
        return []
    try:
        scenes = yaml.safe_load(file.read_text(encoding="utf-8"))
        return [_read_script(scene) for scene in scenes]
    except (yaml.YAMLError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{file} is not a list of scripts: {error!r}",
            code="gold_script",
            remedy="Each entry has `match` and `turns`, a list of `text` (quoted) and `tool_calls`.",
        ) from error


def _read_script(scene: Mapping[str, Any]) -> GoldScript:
    turns: Sequence[Mapping[str, Any]] = scene["turns"]
    calls = [
        (call["name"], _read_arguments(call.get("arguments")))
        for turn in turns
        for call in turn.get("tool_calls") or ()
    ]
    texts = [turn["text"] for turn in turns if turn.get("text")]
    match, text = scene.get("match", ""), texts[-1] if texts else ""
    if not turns or not isinstance(match, str) or not isinstance(text, str):
        raise ValueError(f"{dict(scene)}")
    return GoldScript(match, calls, text)


def _read_arguments(arguments: object) -> Mapping[str, Any]:
    """Return the arguments of a call; they may be written as the text of a JSON object."""
    found = parse_json(arguments or "{}") if isinstance(arguments, str) else arguments or {}
    if not isinstance(found, Mapping):
        raise TypeError(f"{arguments!r} is no object")
    return found


def find_script(scripts: Iterable[GoldScript], row: AnyRow) -> GoldScript | None:
    """Return the first script whose `match` the row's prompt contains, as the engine stub does."""
    prompt = read_conversation(row)
    return next((script for script in scripts if script.match in prompt), None)
