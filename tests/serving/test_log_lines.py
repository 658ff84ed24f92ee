"""Lines of logs have their time in UTC."""

from __future__ import annotations

import logging
import time

import pytest

from nemo_gym.serving.log_lines import LogFormatter


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_the_time_is_that_of_utc_in_every_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = logging.LogRecord("a", logging.WARNING, __file__, 1, "%s and %s", ("one", "two"), None)
    record.created = 1_777_660_200.1204
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        line = LogFormatter().format(record)
    time.tzset()
    assert line == "2026-05-01 18:30:00,120Z WARNING one and two"


def test_half_a_character_in_a_message_does_not_break_the_line() -> None:
    record = logging.LogRecord("gym", logging.ERROR, __file__, 1, "no tool %s", ("\ud800",), None)
    assert LogFormatter().format(record).endswith("ERROR no tool \ufffd")
