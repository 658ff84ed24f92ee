"""Commands that were moved out of the package."""

from __future__ import annotations

import pytest

from nemo_gym.cli import main as umbrella
from nemo_gym.cli import moved, verbs
from nemo_gym.cli.moved import MOVED


@pytest.mark.parametrize("verb", MOVED)
def test_a_moved_command_prints_its_new_name(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    for run in (lambda: umbrella([verb, "+seeds=1"]), getattr(moved, verb)):
        with pytest.raises(SystemExit) as ended:
            run()
        assert ended.value.code == 2
        assert (
            capsys.readouterr().err == f"ng_{verb} is now `{MOVED[verb]}`, in a checkout of the repository\n"
        )
    assert verb not in verbs()
