"""Ids of the system's own clock."""

from __future__ import annotations

import os
import string

from nemo_gym import clock


def test_ids_are_32_hexadecimal_digits_and_differ() -> None:
    ids = {clock.hex_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(each) == 32 and set(each) <= set(string.hexdigits.lower()) for each in ids)


def test_a_forked_process_has_ids_of_its_own() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, clock.hex_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as told:
        assert told.read() != clock.hex_id()


def test_the_times_of_logs_differ_when_clocks_are_set_back() -> None:
    hour_before, hour_after = 1_792_888_200.0, 1_792_891_800.0  # both 02:30 in Berlin
    assert clock.log_time(hour_before) == "2026-10-25 00:30:00,000Z"
    assert clock.log_time(hour_after) == "2026-10-25 01:30:00,000Z"
