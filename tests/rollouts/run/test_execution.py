"""One start of a run; `test_collect.py` has whole collections, which it is a part of."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.run.execution import RunExecution, time_now


def test_the_time_of_a_start_is_in_utc_without_fractions() -> None:
    time = datetime.fromisoformat(time_now())
    assert time.tzinfo == UTC
    assert time.microsecond == 0


def test_files_that_cannot_be_closed_do_not_hide_the_summary(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise ConfigError("the disk is full", code="disk_full")

    execution = SimpleNamespace(materialized=SimpleNamespace(close=refuse), until=None)
    RunExecution.close_files(cast(Any, execution), {"end": "finished"})
    assert "cannot record the end of the run: the disk is full" in caplog.text
