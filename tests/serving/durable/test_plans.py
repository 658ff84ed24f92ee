from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from nemo_gym.serving.durable.plans import ReplayMode, ReplayPlan, read_plan


def test_a_plan_is_read_as_it_was_written_and_is_private(tmp_path: Path) -> None:
    plan = ReplayPlan(
        mode=ReplayMode.FORK, source=Path("/records/0.0.a0"), calls={"policy": 3}, noise=["uuid"], seed=7
    )
    plan.write(tmp_path / "0.0.a1")
    assert read_plan(tmp_path / "0.0.a1") == plan
    (path,) = (tmp_path / "0.0.a1").iterdir()
    assert path.stat().st_mode & 0o077 == 0


def test_an_attempt_without_a_plan_begins_afresh(tmp_path: Path) -> None:
    assert read_plan(tmp_path) is None


def test_a_relative_source_is_found_from_every_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ReplayPlan(mode=ReplayMode.CONTINUE, source=Path("out_attempts/0.0.a0")).write(tmp_path / "0.0.a1")
    monkeypatch.chdir("/")
    plan = read_plan(tmp_path / "0.0.a1")
    assert plan is not None
    assert plan.source == tmp_path.resolve() / "out_attempts" / "0.0.a0"


def test_an_unknown_term_is_refused() -> None:
    with pytest.raises(ValidationError):
        ReplayPlan.model_validate({"mode": "continue", "source": "x", "call": {}})
