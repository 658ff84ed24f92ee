"""The environments of this repository, found by their folders, so that the next one is tested when it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from nemo_gym import PARENT_DIR

Mapping = dict[str, Any]

RESOURCES_ONLY = "resources_only.yaml"
"""The configuration of an environment without agent and model."""
BEST_REWARD = "best_reward"
"""The field of a task row with the reward of the best attempt, if it is not 1."""


class OurEnvironment(NamedTuple):
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def config_files(self) -> list[Path]:
        """Its configurations with an agent."""
        return [path for path in sorted(self.folder.glob("configs/*.yaml")) if path.name != RESOURCES_ONLY]

    def servers(self) -> Mapping:
        """Its declared servers, by instance name."""
        declared: Mapping = {}
        for path in self.config_files:
            declared |= yaml.safe_load(path.read_text(encoding="utf-8"))
        return declared

    def agents(self) -> list[str]:
        """Those that attempt its example tasks."""
        return [
            name
            for name, server in self.servers().items()
            for options in server.get("responses_api_agents", {}).values()
            if any(dataset["type"] == "example" for dataset in options.get("datasets", []))
        ]

    def examples(self) -> list[Mapping]:
        """Its example tasks."""
        lines = (self.folder / "data" / "example.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def best_rewards(self) -> list[float]:
        """The reward of a right policy for each example task."""
        return [row.get(BEST_REWARD, 1.0) for row in self.examples()]

    def gold(self) -> list[Mapping]:
        """The scenes with the right replies to its example tasks, and the judge's replies."""
        path = self.folder / "data" / "example_gold.yaml"
        scenes: list[Mapping] = yaml.safe_load(path.read_text(encoding="utf-8"))
        return scenes


OUR_ENVIRONMENTS = [
    OurEnvironment(path.parent)
    for path in sorted((PARENT_DIR / "resources_servers").glob("*/app.py"))
    if (path.parent / "data").is_dir()  # the tasks of `task_folders` are a user's folders
]
