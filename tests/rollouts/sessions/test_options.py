from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.rollouts.sessions.books import options


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"staleness": {"bound": 1, "of": "token", "then": "drop"}},
            "`then: drop` does not go with `of: token`",
        ),
        ({"staleness": {"baseline": "leave"}}, "needs `then: withhold`"),
        ({"staleness": {"of": "group", "then": "wait", "bound": 1}, "order": "fifo"}, "`groups_per_step`"),
        (
            {"staleness": {"of": "group", "then": "wait", "bound": 1}, "groups_per_step": 1},
            "needs `order: fifo`",
        ),
        ({"min_members": 3}, "min_members 3 is more than group_size 2"),
        ({"groups_per_step": 8, "max_unconsumed_groups": 4}, "no step would be full"),
        ({"group_size": 1, "useful": {}}, "at least 2 rollouts"),
        ({"useful": {"surplus": "cancel"}}, "needs `stop_at`"),
        ({"reserve": 2}, "`reserve` needs"),
        ({"reserve": 2, "groups_per_step": 1, "staleness": {"bound": 1}}, "leaves no group"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        options(**given)


def test_defaults_follow_from_each_other() -> None:
    assert options().needed_members == 2
    assert options(min_members=1).needed_members == 1
    assert options().unconsumed_groups == 64
    assert options(groups_per_step=8).unconsumed_groups == 16
