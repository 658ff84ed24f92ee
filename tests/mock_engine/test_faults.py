from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine._faults import FaultRule
from nemo_gym.mock_engine.fault_kinds import FAULTS
from nemo_gym.mock_engine.fault_plan import read_plan


def test_everything_wrong_in_a_plan_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        read_plan(
            [{"do": "http_418"}, {"nth": 1}, {"do": "hang", "sometimes": True}, {"do": "hang", "every": 0}],
            FaultRule,
        )
    message = raised.value.failure.message
    for part in ("0.do", "http_418", "1: ", "`do` or `delay_s`", "2.sometimes", "3.every"):
        assert part in message


def test_every_fault_says_what_it_does() -> None:
    assert all(fault.summary for fault in FAULTS.values())
    manual = (Path(__file__).parents[2] / "docs" / "mock_engine.md").read_text()
    assert [name for name in FAULTS if f"`{name}`" not in manual] == []
