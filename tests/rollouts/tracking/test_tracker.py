from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.tracking.tracker import TrackedRunInfo, render_markdown, start_tracker


def test_a_tracker_that_cannot_start_is_bad_input() -> None:
    run = TrackedRunInfo("id", "project", "name", Path(), {})
    with pytest.raises(ConfigError, match="the tracker no_such_tracker cannot be started") as refused:
        start_tracker("no_such_tracker", run)
    assert refused.value.__cause__ is not None


def test_a_table_has_a_line_for_each_sample() -> None:
    table = render_markdown([(0, 1, "agent", 0.5, "completed", "a|b", "two\nlines")])
    assert table.splitlines() == [
        "| task | repeat | agent | reward | outcome | prompt | answer |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        r"| 0 | 1 | agent | 0.5 | completed | a\|b | two<br>lines |",
    ]
