"""The program inside of a sandbox: output and accounts. `test_provider` runs the whole of it."""

from __future__ import annotations

import pytest

from nemo_gym.sandbox.providers.rootless import supervisor


def test_output_beyond_its_limit_is_thrown_away() -> None:
    output = supervisor.Output(5)
    output.add(1, b"abc")
    assert not output.exceeded.is_set()
    output.add(2, b"defg")
    assert output.exceeded.is_set()
    assert (output.text(1), output.text(2)) == (b"abc", b"de")


def test_an_account_is_found_by_name_and_by_number() -> None:
    assert supervisor.find_account("root:root")["HOME"] == "/root"
    assert supervisor.find_account("0")["USER"] == "root"
    assert supervisor.find_account("4242424") == {"HOME": "/"}
    with pytest.raises(KeyError):
        supervisor.find_account("nobody-of-this-name")
