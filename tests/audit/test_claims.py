from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nemo_gym.audit.claims import CARD, check_claims, find_faults
from nemo_gym.config.problems import Problems
from nemo_gym.failures import ConfigError


def write_card(folder: Path, *, tasks: int = 160, **bounds: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    classes = [
        {"class": name, "error": name.replace("_", " "), "probes": 160, "wrong": 0, "upper_95": bound}
        for name, bound in {"false_accepts": 0.018, "false_rejects": 0.04, **bounds}.items()
    ]
    (folder / CARD).write_text(json.dumps({"tasks": tasks, "enough": tasks >= 150, "classes": classes}))
    return folder / CARD


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"tasks": 6}, "6 tasks, and rates need 150"),
        ({"false_accepts": 0.03}, "may reach 3.0%, above 2%"),
        ({"false_rejects": 0.06}, "may reach 6.0%, above 5%"),
    ],
)
def test_a_card_supports_a_claim_within_its_bounds(
    tmp_path: Path, changes: dict[str, Any], fault: str | None
) -> None:
    faults = list(find_faults(write_card(tmp_path, **changes)))
    assert faults == [] if fault is None else fault in faults[0]


def test_a_missing_card_or_one_without_right_attempts_supports_nothing(tmp_path: Path) -> None:
    assert list(find_faults(tmp_path / CARD)) == ["it has no card audit.json"]
    (tmp_path / CARD).write_text("[]")
    assert list(find_faults(tmp_path / CARD)) == ["audit.json is not a card"]
    (tmp_path / CARD).write_text(json.dumps({"tasks": 200, "enough": True, "classes": []}))
    assert list(find_faults(tmp_path / CARD)) == ["its card has no right attempt"]


def claim(folder: Path, verified: bool) -> Any:
    return cast(
        Any,
        SimpleNamespace(
            name="mine", implementation="mine", directory=folder, where=None, config={"verified": verified}
        ),
    )


def test_our_own_environment_is_refused_and_another_one_is_warned_of(tmp_path: Path) -> None:
    own = tmp_path / "resources_servers"
    problems = Problems()
    check_claims([claim(own / "mine", True)], own, problems)
    with pytest.raises(ConfigError, match="claims `verified: true`: it has no card"):
        problems.raise_if_any()
    problems = Problems()
    check_claims([claim(tmp_path / "theirs", True), claim(own / "mine", False)], own, problems)
    problems.raise_if_any()
    assert "gym audit mine" in problems.warnings[0]
    problems = Problems()
    write_card(own / "mine")
    check_claims([claim(own / "mine", True)], own, problems)
    problems.raise_if_any()
    assert problems.warnings == []
