"""The expenses of a run, as its manifest has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_POLICY = {"calls": 4, "input": 2000, "cached": 80, "output": 40, "cost": 0.0123}
_JUDGE = {"calls": 2, "input": 400, "cached": 0, "output": 100, "cost": 0.03}
SPENT: dict[str, Any] = {
    "tokens": 2540,
    "cost": 0.0423,
    "seconds": 75.0,
    "models": [
        {"server": "judge_model", "model": "large", "role": "judge", **_JUDGE},
        {"server": "policy_model", "model": "mock", "role": "policy", **_POLICY},
    ],
    "environments": {
        "mcqa": {"tokens": 2040, "cost": 0.0123, "seconds": 15.0, "servers": {"policy_model": _POLICY}},
        "quiz": {"tokens": 500, "cost": 0.03, "seconds": 60.0, "servers": {"judge_model": _JUDGE}},
    },
    "agents": {
        "simple_agent": {
            "tokens": 2540,
            "cost": 0.0423,
            "seconds": 75.0,
            "servers": {"policy_model": _POLICY, "judge_model": _JUDGE},
        }
    },
    "budget": {"run": {"tokens": 1_000_000}},
    "lost_attempts": 0,
}


def note_expenses(rows: Path) -> Path:
    """Give the run with the rows `rows` expenses in its manifest."""
    manifest = rows.with_name(f"{rows.stem}_run.json")
    told = json.loads(manifest.read_text()) if manifest.exists() else {"identity": {}, "starts": [{}]}
    told["starts"][-1]["spent"] = SPENT
    manifest.write_text(json.dumps(told))
    return rows
