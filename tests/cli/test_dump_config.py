from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym.cli.dump_config import main
from tests.config.small_gym import POLICY, write_gym


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write_gym(tmp_path))
    return tmp_path


def dumped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as raised:
        main(["+config_paths=[weather.yaml,model.yaml]", *POLICY, *arguments])
    captured = capsys.readouterr()
    assert raised.value.code == 0, captured.err
    return captured.out


def block(config: Any) -> Any:
    return config["policy_model"]["responses_api_models"]["small_model"]


def test_the_effective_configuration_is_yaml_with_its_secrets_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = dumped(capsys)
    config = yaml.safe_load(text)
    assert "sk-canary" not in text
    assert block(config) == {
        "entrypoint": "app.py",
        "base_url": "http://localhost:8000/v1",
        "api_key": "****",
        "model": "m",
    }
    assert config["head_server"] == {"host": "127.0.0.1", "port": 11000}


def test_json_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(dumped(capsys, "+json=true")) == yaml.safe_load(dumped(capsys))


def test_every_shape_of_value_survives_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    shared = "{empty: {}, none: null, list: [], text: 'a: b # c', number: '12', deep: [[1, {x: y}], 'é'], yes: 'no'}"
    (Path.cwd() / "shared.yaml").write_text(
        f"shared: {shared}\nlines:\n- |\n  one\n  two\nused: ${{list2}}\n"
    )
    text = dumped(capsys, "++config_paths=[weather.yaml,model.yaml,shared.yaml]", "+list2=['a\nb']")
    config = yaml.safe_load(text)
    assert config["shared"] == {
        "empty": {},
        "none": None,
        "list": [],
        "text": "a: b # c",
        "number": "12",
        "deep": [[1, {"x": "y"}], "é"],
        "yes": "no",
    }
    assert config["lines"] == ["one\ntwo\n"]
    assert config["list2"] == ["a\nb"]


def test_an_explained_dump_has_the_origin_of_every_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = "weather_agent.responses_api_agents.small_agent.max_steps"
    text = dumped(capsys, "--explain", f"++{steps}=5")
    lines = {line.strip().partition("  # ")[0]: line.partition("  # ")[2] for line in text.splitlines()}
    assert lines["max_steps: 5"] == f"command line: ++{steps}=5; overrides 3 (weather.yaml:12:7)"
    assert lines["base_url: http://localhost:8000/v1"] == "model.yaml:5:7, as ${policy_base_url}"
    assert lines["port: 11000"] == "default"
    assert yaml.safe_load(text)["head_server"]["port"] == 11000
    assert "sk-canary" not in text


def test_an_explained_dump_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    text = dumped(capsys, "--explain", "--json", "++policy_model_name=other")
    shown = json.loads(text)
    assert shown["policy_model.responses_api_models.small_model.model"] == {
        "value": "other",
        "from": "model.yaml:7:7",
        "written": "${policy_model_name}",
        "beat": [],
    }
    assert shown["policy_model_name"]["beat"] == [
        {"value": "m", "from": "command line: +policy_model_name=m"}
    ]
    assert shown["policy_api_key"]["value"] == "****"
    assert "sk-canary" not in text


def test_invalid_input_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["+config_paths=[weather.yaml]"])
    assert raised.value.code == 2
    assert "there is no server 'policy_model'" in capsys.readouterr().err
