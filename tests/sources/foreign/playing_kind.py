"""A kind whose environments call the model themselves. The policy's last word says what happens."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any


def build(name: str, options: dict[str, Any]) -> Playing:
    return Playing(name)


def ask(model: dict[str, str], messages: list[dict[str, str]]) -> str:
    """Ask a model for its next message. Raises `HTTPError`, an `OSError`, for an answer that failed."""
    request = urllib.request.Request(
        f"{model['base_url']}/responses",
        json.dumps({"model": model["model"], "input": messages}).encode(),
        {"authorization": f"Bearer {model['key']}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        said: str = json.load(reply)["output"][-1]["content"][0]["text"]
        return said


class Playing:
    """`solo` has one seat, `pair` two that take turns, and `judged` a judge beside its seat."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seats = ["first", "second"] if name == "pair" else ["solver"]

    def describe(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "version": "1",
            "digest": "d" * 64,
            "loop": "theirs",
            "seats": [{"name": seat, "trainable": True} for seat in self._seats],
            "models": ["judge"] if self._name == "judged" else [],
        }

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]:
        return {"tasks": [{"id": "one", "prompt": None, "data": {"turns": 2}}], "cursor": None}

    def run(
        self, task: dict[str, Any], seed: int, models: dict[str, dict[str, str]], limits: dict[str, int]
    ) -> dict[str, Any]:
        conversations: dict[str, list[dict[str, str]]] = {seat: [] for seat in self._seats}
        turns, said = min(task["data"]["turns"], limits["turns"]), ""
        for turn in range(turns):
            for seat in self._seats:
                heard = conversations[seat]
                heard.append({"role": "user", "content": f"{seat}, turn {turn} of {task['id']}: {said}"})
                said = ask(models[seat], heard)
                heard.append({"role": "assistant", "content": said})
        return self._finish(task, turns, models, said)

    def _finish(
        self, task: dict[str, Any], turns: int, models: dict[str, dict[str, str]], said: str
    ) -> dict[str, Any]:
        reward: Any = float(len(said))
        if said == "raise":
            raise RuntimeError("a bug of the environment")
        if said == "die":
            os._exit(3)
        if said == "text":
            reward = "good"
        if said == "write":
            reward = float(any(os.access(folder, os.W_OK) for folder in [Path("/models"), Path("/usr")]))
        if self._name == "judged":
            reward = float(ask(models["judge"], [{"role": "user", "content": said}]) == "good")
        return {
            "rewards": dict.fromkeys(self._seats, reward),
            "components": {self._seats[0]: {"length": {"value": reward, "weight": 1.0}}}
            if self._name == "solo"
            else {},
            "metrics": {seat: {"turns_played": turns} for seat in self._seats},
            "end": {
                "reason": "max_steps" if turns < task["data"]["turns"] else "terminated",
                "detail": "no turn was left",
            },
            "calls_seen": dict.fromkeys(self._seats, turns),
            "native": {"said": said},
        }
