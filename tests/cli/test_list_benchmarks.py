from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import list_benchmarks
from tests.config.roots import write_root


def test_only_benchmarks_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_root(tmp_path, "benchmarks/small", "environments/game")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        list_benchmarks.main(["+json=true"])
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == ["small"]
