"""Right attempts that an author declares beside the rows, in the form of scripts for the engine stub.

    - match: "Remind me about the bread"          # a part of the task's question
      turns:
      - tool_calls: [{name: set_timer, arguments: {minutes: 25}}]
      - text: "It is set."

The file of `data/example.jsonl` is `data/example_gold.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.failures import ConfigError


@dataclass(frozen=True, slots=True)
class GoldScript:
    """A right attempt at the task whose question contains `match`."""

    match: str
    calls: Sequence[tuple[str, Mapping[str, Any]]]
    text: str


def read_gold_scripts(rows: Path) -> list[GoldScript]:
    """Return the scripts beside a file of rows; none if there is no such file. Raises `ConfigError`."""
    file = rows.with_name(f"{rows.name.partition('.')[0]}_gold.yaml")
    if not file.is_file():
        return []
    try:
        scenes = yaml.safe_load(file.read_text(encoding="utf-8"))
        return [_read_script(scene) for scene in scenes]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{file} is not a list of scripts: {error!r}",
            code="gold_script",
            remedy="Each entry has `match` and `turns`, a list of `text` and `tool_calls`.",
        ) from error


def _read_script(scene: Mapping[str, Any]) -> GoldScript:
    turns: Sequence[Mapping[str, Any]] = scene["turns"]
    calls = [
        (call["name"], call.get("arguments") or {}) for turn in turns for call in turn.get("tool_calls") or ()
    ]
    texts = [turn["text"] for turn in turns if turn.get("text")]
    return GoldScript(scene["match"], calls, texts[-1] if texts else "")


def find_script(scripts: Iterable[GoldScript], question: str) -> GoldScript | None:
    """Return the first script whose `match` the question contains."""
    return next((script for script in scripts if script.match in question), None)
