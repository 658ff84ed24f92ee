from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR, cli
from nemo_gym.cli import main as umbrella
from nemo_gym.cli import verbs
from nemo_gym.cli.command import ExitCode
from nemo_gym.config.loading import GlobalConfig
from nemo_gym.failures import ConfigError, EngineError
from tests.cli.samples import CONFIGURED, SAMPLE, SampleKeys, fails
from tests.config.small_gym import POLICY, write_gym


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write_gym(tmp_path))
    return tmp_path


def test_the_handler_gets_the_keys_and_its_answer_is_the_exit_code() -> None:
    seen: list[SampleKeys] = []

    def handler(keys: SampleKeys) -> int:
        seen.append(keys)
        return ExitCode.PARTIAL

    assert SAMPLE.run(["+limit=3", "+params.x=1", "--output", "a b.jsonl"], handler) == 3
    assert seen == [SampleKeys(limit=3, params={"x": 1.0}, output="a b.jsonl")]


def test_a_configured_handler_gets_the_configuration_too(capsys: pytest.CaptureFixture[str]) -> None:
    def handler(keys: SampleKeys, config: GlobalConfig) -> int:
        assert (keys.limit, [server.name for server in config.servers]) == (3, ["policy_model"])
        return 0

    line = ["+config_paths=[model.yaml]", *POLICY, "limit=3", "+uv_cache_dir=x"]
    assert CONFIGURED.run(line, handler) == 0
    assert capsys.readouterr().err.startswith(
        "ng_configured: warning: command line: +uv_cache_dir=x: uv_cache_dir: "
    )


def test_wrong_keys_are_printed_together_and_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert SAMPLE.run(["+limt=3", "+params={x: y}"], fails(AssertionError())) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "ng_sample: 2 problems\n"
        "1. command line: +limt=3\n"
        "   There is no key 'limt'.\n"
        "   -> Did you mean 'limit'?\n"
        "2. command line: +params={x: y}\n"
        "   params.x must be a number, not 'y'.\n"
        "   -> Write a number, such as 3.\n"
    )


def test_one_problem_is_printed_without_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert CONFIGURED.run(["+config_paths=[modle.yaml]"], lambda keys, config: 0) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "ng_configured: 1 problem",
        "command line: +config_paths=[modle.yaml]",
        "There is no file 'modle.yaml'.",
    ]
    assert lines[3].startswith("-> Did you mean 'model.yaml'?")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            EngineError("No engine.", code="x", remedy="Start one."),
            1,
            "ng_sample: No engine.\n-> Start one.\n",
        ),
        (EngineError("No engine.", code="x"), 1, "ng_sample: No engine.\n"),
        (ConfigError("Wrong.", code="x", remedy="Mend it."), 2, "ng_sample: Wrong.\n-> Mend it.\n"),
        (KeyboardInterrupt(), 130, "ng_sample: interrupted\n"),
    ],
)
def test_errors_are_printed_with_their_remedy_and_their_exit_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, text: str
) -> None:
    assert SAMPLE.run([], fails(error)) == code
    assert capsys.readouterr().err == text


def test_a_bug_is_not_dressed_up_as_a_users_error() -> None:
    with pytest.raises(ZeroDivisionError):
        SAMPLE.run([], fails(ZeroDivisionError()))


@pytest.mark.parametrize("spelling", ["+json=true", "++json=true", "json=true", "--json", "--json=true"])
def test_errors_are_json_when_that_is_asked_for(capsys: pytest.CaptureFixture[str], spelling: str) -> None:
    assert SAMPLE.run([spelling, "+limt=3"], fails(AssertionError())) == 2
    shown = json.loads(capsys.readouterr().out)
    assert shown == {
        "ok": False,
        "kind": "config:invalid_config",
        "problems": [
            {
                "where": "command line: +limt=3",
                "message": "There is no key 'limt'.",
                "remedy": "Did you mean 'limit'?",
            }
        ],
    }


def test_other_errors_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert SAMPLE.run(["--json"], fails(EngineError("No engine.", code="gone"))) == 1
    assert json.loads(capsys.readouterr().out)["kind"] == "engine:gone"


def test_a_secret_of_the_line_is_in_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["+policy_api_key=canary=1", "+hf_token=[canary]", "+limit=x", "~policy_api_key=canary"]
    assert CONFIGURED.run(line, lambda keys, config: 0) == 2
    captured = capsys.readouterr()
    assert "canary" not in captured.out + captured.err


def test_the_umbrella_command_reaches_every_verb_in_both_spellings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert {"dump_config", "validate", "help", "version"} <= set(verbs())
    assert not {"command", "usage", "__init__"} & set(verbs())
    for spelling in ("dump-config", "dump_config", "ng_dump_config"):
        with pytest.raises(SystemExit) as raised:
            umbrella([spelling, "--help"])
        assert raised.value.code == 0
        assert capsys.readouterr().out.startswith("ng_dump_config: ")


def test_an_unknown_verb_exits_with_2_and_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        umbrella(["validat"])
    assert raised.value.code == 2
    assert capsys.readouterr().err.endswith("There is no verb 'validat'. Did you mean 'validate'?\n")


def ng(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from nemo_gym.cli import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PARENT_DIR)},
        check=False,
    )


def test_a_closed_output_pipe_is_no_crash(folder: Path) -> None:
    code = "import sys; from nemo_gym.cli import main; main(sys.argv[1:])"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code, "version"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PARENT_DIR)},
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_exit_codes_of_processes(folder: Path) -> None:
    done = ng("version", "--json", folder=folder)
    assert (done.returncode, json.loads(done.stdout)["installed_in"]) == (0, str(PARENT_DIR))
    done = ng("validate", "+config_paths=[weather.yaml,model.yaml]", *POLICY, folder=folder)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "valid: 3 servers, 0 datasets")
    done = ng("validate", "+config_paths=[weather.yaml,model.yaml]", folder=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("ng_validate: 3 problems\n1. model.yaml:5:7\n")


def test_an_interrupt_during_the_first_imports_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "verbs", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(["eval", "run"])
    assert ended.value.code == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "gym: interrupted\n"
