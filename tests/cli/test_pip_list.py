from __future__ import annotations

import json

import pytest

from nemo_gym.cli import pip_list


def test_the_packages_of_a_server_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        pip_list.main(["+entrypoint=resources_servers/mcqa", "+json=true"])
    assert ended.value.code == 0
    assert "pydantic" in [package["name"] for package in json.loads(capfd.readouterr().out)]


def test_an_unknown_server_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        pip_list.main(["+entrypoint=resources_servers/mcqb"])
    assert ended.value.code == 2
    assert "Did you mean 'mcqa'?" in capfd.readouterr().err
