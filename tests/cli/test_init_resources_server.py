"""A new environment is created once."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
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
    assert captured.out.splitlines()[-1].startswith("next: gym env test mine")
    assert "already exists" in captured.err


def test_the_name_of_another_environment_is_refused_with_a_free_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resources_servers" / "my_mcqa").mkdir(parents=True)
    with pytest.raises(SystemExit) as ended:
        init_resources_server.main(["+entrypoint=mcqa"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert (
        f"'mcqa' in {PARENT_DIR / 'resources_servers' / 'mcqa'}, which a new one of that name would hide"
        in told
    )
    assert "such as my_mcqa_2." in told
    assert not (tmp_path / "resources_servers" / "mcqa").exists()
