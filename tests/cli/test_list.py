"""Environments, agents and models as tables and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.authoring.scaffold import scaffold
from nemo_gym.cli import list as list_command


@pytest.fixture
def project(tmp_path: Path) -> Path:
    scaffold("resources_servers/mine", tmp_path)
    agent = tmp_path / "responses_api_agents" / "plain"
    (agent / "configs").mkdir(parents=True)
    (agent / "app.py").write_text('class A:\n    """An agent. It acts."""\n')
    (agent / "configs" / "broken.yaml").write_text("a: [")
    return tmp_path


def test_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "160")
    with pytest.raises(SystemExit) as ended:
        list_command.main(["+kind=resources_servers"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    (line,) = (line for line in shown.splitlines() if line.split()[:1] == ["mine"])
    assert line.split()[:3] == ["mine", "other", "state"]
    assert "agents (" not in shown
    with pytest.raises(SystemExit):
        list_command.main(["+json=true", "+domain=other"])
    assert "resources_servers/mine" in [entry["entrypoint"] for entry in json.loads(capsys.readouterr().out)]
