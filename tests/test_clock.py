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
