"""A new environment is created once."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.cli import init_resources_server


def test_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in (0, 2):
        with pytest.raises(SystemExit) as ended:
            init_resources_server.main(["+entrypoint=resources_servers/mine"])
        assert ended.value.code == code
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1].startswith("next: ng_test +entrypoint=resources_servers/mine")
    assert "already exists" in captured.err
