from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from nemo_gym.cli.validate import main
from tests.certificates import Authority, overrides_of
from tests.config.small_gym import POLICY, write_gym

LINE = ("+config_paths=[weather.yaml,model.yaml]", *POLICY, "+head_server.port=0")
WEATHER = "weather.resources_servers.weather"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write_gym(tmp_path))
    return tmp_path


def validated(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as raised:
        main([*LINE, *arguments])
    captured = capsys.readouterr()
    assert raised.value.code == code, captured
    return captured.out, captured.err


def dataset(name: str, kind: str = "train", extra: str = "") -> str:
    return f"+{WEATHER}.datasets=[{{name: d, type: {kind}, jsonl_fpath: {name}{extra}}}]"


def test_a_valid_configuration_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = validated(capsys, f"+{WEATHER}.port=0")
    assert [line.split() for line in out.splitlines()] == [
        ["weather", "resources_servers/weather", "any", "port", "weather.yaml:3:5"],
        ["weather_agent", "responses_api_agents/small_agent", "any", "port", "weather.yaml:8:5"],
        ["policy_model", "responses_api_models/small_model", "any", "port", "model.yaml:3:5"],
        ["valid:", "3", "servers,", "0", "datasets"],
    ]
    assert err == ""


def test_the_summary_as_json(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "rows.jsonl").write_text("{}\n")
    out, _ = validated(capsys, "--json", dataset("rows.jsonl"))
    shown = json.loads(out)
    assert shown["ok"] is True
    assert shown["servers"][0] == {
        "name": "weather",
        "kind": "resources_servers",
        "implementation": "weather",
        "directory": str(folder / "resources_servers" / "weather"),
        "entrypoint": "app.py",
        "num_workers": 1,
        "host": "127.0.0.1",
        "port": None,
        "where": "weather.yaml:3:5",
    }
    rows = str(folder / "rows.jsonl")
    assert shown["datasets"] == [{"server": "weather", "name": "d", "type": "train", "file": rows}]


def test_a_used_port_is_reported_with_its_process(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        _, err = validated(capsys, f"+{WEATHER}.port={port}", code=2)
    assert f"command line: +{WEATHER}.port={port}\n" in err
    assert f"port {port} of `weather` is taken by pid {os.getpid()} (" in err


def test_a_configuration_without_servers_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["+head_server.port=0"])
    assert raised.value.code == 0
    assert capsys.readouterr().out == "valid: 0 servers, 0 datasets\n"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "has no rows"),
        (b"\n\n", "has no rows"),
        (b"version https://git-lfs.github.com/spec/v1\n", "the first line of"),
        (b"[1, 2]\n", "the first line of"),
        (b"\xff\xfe\n", "the first line of"),
    ],
)
def test_an_invalid_dataset_is_reported(
    capsys: pytest.CaptureFixture[str], folder: Path, content: bytes, part: str
) -> None:
    (folder / "rows.jsonl").write_bytes(content)
    _, err = validated(capsys, dataset("rows.jsonl"), code=2)
    assert "dataset d of weather: " in err
    assert part in err


def test_a_dataset_that_is_yet_to_be_made_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    Path("prepare.py").write_text("")
    _, err = validated(capsys, dataset("later.jsonl", extra=", prepare_script: prepare.py"))
    assert "the file of dataset d of weather does not exist yet" in err


def test_input_and_output_of_a_collection_are_checked(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "rows.jsonl").write_text("{}\n")
    (folder / "file").write_text("")
    validated(capsys, "+input_jsonl_fpath=rows.jsonl", "+output_jsonl_fpath=new/folder/out.jsonl")
    assert not (folder / "new").exists()
    _, err = validated(capsys, "+input_jsonl_fpath=no.jsonl", "+output_jsonl_fpath=file/out.jsonl", code=2)
    assert "input_jsonl_fpath: no.jsonl cannot be read: No such file or directory." in err
    assert f"output_jsonl_fpath: {folder}/file cannot be written." in err


def test_an_output_that_is_a_folder_is_reported(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    _, err = validated(capsys, f"+output_jsonl_fpath={folder}", code=2)
    assert f"output_jsonl_fpath: {folder} is a folder." in err


def test_everything_is_reported_together_as_json(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "rows.jsonl").write_text("")
    out, _ = validated(capsys, "--json", dataset("rows.jsonl"), f"+output_jsonl_fpath={folder}", code=2)
    shown = json.loads(out)
    assert shown["ok"] is False
    assert len(shown["problems"]) == 2


@pytest.fixture
def runs_code(folder: Path) -> None:
    app = folder / "resources_servers" / "weather" / "app.py"
    text = app.read_text()
    assert "    cities: int = 1" in text
    app.write_text(
        f"from typing import ClassVar\n{text}".replace(
            "    cities", "    RUNS_CODE: ClassVar[bool] = True\n    cities"
        )
    )


@pytest.mark.usefixtures("runs_code")
def test_the_isolation_of_code_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = validated(capsys)
    assert out.splitlines()[-1].startswith("weather: code of models runs in isolation `")
    out, _ = validated(capsys, "--json")
    assert json.loads(out)["isolation"].startswith("weather: code of models runs in isolation `")


@pytest.mark.usefixtures("runs_code")
def test_code_that_runs_in_a_providers_sandboxes_needs_no_isolation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = folder / "resources_servers" / "weather" / "app.py"
    option = "cities: int = 1"
    app.write_text(app.read_text().replace(option, f"{option}\n    sandbox_provider: str | None = None"))
    out, _ = validated(capsys, "+sandbox={local: {}}", f"++{WEATHER}.sandbox_provider=sandbox")
    assert "code of models runs in isolation" not in out


@pytest.mark.usefixtures("runs_code")
def test_code_without_isolation_is_refused_unless_the_user_allows_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tools = tmp_path_factory.mktemp("tools")
    (tools / "prlimit").symlink_to(shutil.which("prlimit") or "/usr/bin/prlimit")
    monkeypatch.setenv("PATH", str(tools))
    _, err = validated(capsys, code=2)
    assert "Untrusted code cannot be run safely here" in err
    assert "+allow_unsandboxed=true" in err
    out, _ = validated(capsys, "+allow_unsandboxed=true")
    assert "isolation `unsandboxed`, as " in out


def test_a_sandbox_provider_that_is_missing_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = folder / "resources_servers" / "weather" / "app.py"
    option = "cities: int = 1"
    app.write_text(app.read_text().replace(option, f"{option}\n    sandbox_provider: str | None = None"))
    blocks = ("+sandbox={opensandbox: {}}", f"++{WEATHER}.sandbox_provider=sandbox")
    _, err = validated(capsys, *blocks, code=2)
    assert "weather: there is no sandbox provider 'opensandbox' here" in err
    assert "install the package that publishes it" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{concurrency: -1}", "sandbox.local.concurrency must be greater than 0, not -1"),
        ("{memory: 1}", "There is no key 'sandbox.local.memory'."),
    ],
)
def test_a_wrong_option_of_a_sandbox_provider_is_named(
    options: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = folder / "resources_servers" / "weather" / "app.py"
    option = "cities: int = 1"
    app.write_text(app.read_text().replace(option, f"{option}\n    sandbox_provider: str | None = None"))
    blocks = (f"+sandbox={{local: {options}}}", f"++{WEATHER}.sandbox_provider=sandbox")
    _, err = validated(capsys, *blocks, code=2)
    assert f"weather: the options of the sandbox provider 'local' are wrong: {message}" in err
    assert "Install" not in err


def test_the_files_of_tls_are_checked_for_the_placement_to_come(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "tls")
    given = [*overrides_of(authority.issue("10.0.0.1")), "+advertised_host=10.0.0.1", "+hosts=[a]"]
    validated(capsys, *given, "+placement=hosts")
    _, err = validated(capsys, *given, code=2)
    assert "is not valid for 127.0.0.1" in err
