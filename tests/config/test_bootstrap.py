from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import BOOTSTRAP_FD_VARIABLE, Bootstrap


@pytest.fixture(autouse=True)
def _no_bootstrap() -> Iterator[None]:
    bootstrap.set_current(None)
    yield
    bootstrap.set_current(None)


def a_bootstrap(**changes: object) -> Bootstrap:
    given = {
        "server_name": "policy_model",
        "global_config": {"policy_api_key": "sk-1", "text": "größer"},
        "run_token": "token",
        "cookie_key": "key",
        "listen_fds": [4],
    }
    return Bootstrap(**{**given, **changes})  # type: ignore[arg-type]


def test_a_bootstrap_round_trips() -> None:
    written = a_bootstrap(replica=2)
    assert Bootstrap.read_from_fd(written.write_to_fd()) == written


def test_a_configuration_longer_than_a_pipe_buffer_is_read_completely() -> None:
    written = a_bootstrap(global_config={"rows": ["x" * 1000] * 1000})
    assert Bootstrap.read_from_fd(written.write_to_fd()) == written


def test_current_is_taken_once_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    written = a_bootstrap()
    fd = written.write_to_fd()
    monkeypatch.setenv(BOOTSTRAP_FD_VARIABLE, str(fd))
    assert bootstrap.current() == written
    assert BOOTSTRAP_FD_VARIABLE not in os.environ
    with pytest.raises(OSError):
        os.fstat(fd)
    assert bootstrap.current() is bootstrap.current()


def test_a_process_that_no_launcher_started_has_none() -> None:
    assert bootstrap.current() is None


def test_one_can_be_set_for_inline_placement() -> None:
    stand_in = a_bootstrap()
    bootstrap.set_current(stand_in)
    assert bootstrap.current() is stand_in
