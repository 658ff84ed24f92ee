"""`ng_doctor` and `gym doctor`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.cli import main
from nemo_gym.cli.command import ExitCode
from nemo_gym.cli.doctor import COMMAND, EXTRAS, examine
from nemo_gym.mock_engine.options import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    code = COMMAND.run([*arguments, "--json"], examine)
    findings = json.loads(capsys.readouterr().out)
    return code, {each["subject"]: (each["fact"], each["remedy"]) for each in findings}


def test_the_machine_is_described(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, facts = found(capsys)
    assert code == ExitCode.COMPLETE
    assert "cores" in facts["machine"][0]
    assert facts["folder"][0] == f"{folder} can be written"
    assert "isolat" in facts["sandbox"][0]
    assert facts["sandbox providers"][0].startswith("apptainer, docker, local, podman")
    assert facts["engine"] == ("no URL is set", "Set policy_base_url in env.yaml, or write --url URL.")


def test_absent_extras_are_installed_from_where_the_gym_came(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "math", ("a_package_that_is_absent", "to be absent"))
    _, facts = found(capsys)
    absent, remedy = facts["absent extras"]
    assert "math" in absent
    assert remedy.startswith(f"If needed: pip install '{PARENT_DIR}[")


def test_an_engine_is_reached(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    with EngineProcess(EngineOptions(model="small")) as engine:
        (folder / "env.yaml").write_text(f"policy_base_url: {engine.base_url}\n")
        code, facts = found(capsys)
        assert (code, facts["engine"][0]) == (0, f"{engine.base_url} serves small")
        without = engine.base_url.removesuffix("/v1")
        code, facts = found(capsys, f"+policy_base_url={without}")
        assert (code, facts["engine"][1]) == (ExitCode.FATAL, f"Write {without}/v1.")


def test_an_engine_that_is_gone_is_fatal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--url", "http://127.0.0.1:9/v1"])
    assert exited.value.code == ExitCode.FATAL
    printed = capsys.readouterr().out
    assert "refuses the connection" in printed
    assert "-> Check that the server runs" in printed


def test_every_extra_is_listed_here_and_in_the_instructions() -> None:
    project = tomllib.loads((PARENT_DIR / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"]) - {"dev"}
    assert set(EXTRAS) == extras
    page = (PARENT_DIR / "docs" / "install.md").read_text()
    assert [extra for extra in extras if f"| `{extra}` |" not in page] == []
