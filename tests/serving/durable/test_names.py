from __future__ import annotations

import pytest

from nemo_gym.rows.identity import RolloutId
from nemo_gym.serving.durable.names import AttemptName, new_run, parse_name


def test_a_name_is_read_as_it_was_written() -> None:
    name = AttemptName(new_run(), 12, 3, 4)
    assert parse_name(str(name)) == name
    assert name.identity == RolloutId(12, 3)
    assert str(name).endswith(name.folder)


@pytest.mark.parametrize(
    "session", ["", "abc", "d0123456789ab.1.2", "d0123456789ab.1.2.a3~x", "x0123456789ab.1.2.a3"]
)
def test_other_sessions_are_no_attempts(session: str) -> None:
    assert parse_name(session) is None
