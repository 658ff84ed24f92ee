"""The list of all commands."""

from __future__ import annotations

import pytest

from nemo_gym.cli import main as umbrella
from nemo_gym.cli import verbs


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        umbrella(["help"])
    assert raised.value.code == 0
    listed = [line.split(" ")[0] for line in capsys.readouterr().out.splitlines() if line.startswith("ng_")]
    assert listed == [f"ng_{verb}" for verb in verbs()]
