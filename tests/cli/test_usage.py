"""The text of --help."""

from __future__ import annotations

import shlex
from importlib import import_module

import pytest

from nemo_gym.cli import verbs
from tests.cli.samples import CONFIGURED, SAMPLE, fails


@pytest.mark.parametrize("spelling", ["--help", "-h", "+help=true", "help=true", "++h=true"])
def test_help_has_every_key_with_its_default_an_example_and_the_exit_codes(
    capsys: pytest.CaptureFixture[str], spelling: str
) -> None:
    assert SAMPLE.run(["+limt=3", spelling], fails(AssertionError())) == 0
    text = capsys.readouterr().out
    for part in (
        "ng_sample: Take a sample.",
        "limit  (whole number, default 10)\n      How many rows to take.",
        "output  (text, optional)",
        "params  (mapping, optional)",
        "json  (true or false, default false)",
        "ng_sample +limit=3",
        "2    wrong usage or configuration",
        "130  interrupted",
    ):
        assert part in text
    assert "config_paths" not in text


def test_help_fits_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert CONFIGURED.run(["--help"], lambda keys, config: 1) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_help_of_a_configured_command_has_the_global_keys_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert CONFIGURED.run(["--help"], lambda keys, config: 1) == 0
    text = capsys.readouterr().out
    assert "config_paths  (list of text, optional)" in text
    assert "default_host  (text, default 127.0.0.1)" in text
    assert "uv_cache_dir" not in text


@pytest.mark.parametrize("verb", verbs())
def test_every_help_fits_80_columns_and_its_example_can_be_copied(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = import_module(f"nemo_gym.cli.{verb}").COMMAND
    monkeypatch.setenv("COLUMNS", "80")
    text = command.help()
    assert max(map(len, text.splitlines())) <= 80
    shown = text.split("\nexample:\n")[1].split("\n\nexit codes:")[0]
    assert shlex.split(shown.replace("\\\n", "")) == shlex.split(command.example)
