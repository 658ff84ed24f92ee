from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.cli import dev_test


def exit_code(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        dev_test.main(arguments)
    return ended.value.code


def test_it_runs_pytest_in_the_checkout() -> None:
    quick = "+pytest_args=['tests/test_paths.py','-n','0']"
    assert exit_code(quick) == 0
    assert exit_code("+pytest_args=['tests/no_such_file.py']") == 1


def test_without_a_checkout_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev_test, "PARENT_DIR", tmp_path)
    assert exit_code() == 2
    assert "has no tests" in capsys.readouterr().err
