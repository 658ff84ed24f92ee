from __future__ import annotations

import click
import pytest

from nemo_gym.cli.short.flags import (
    CONCURRENCY,
    HEAD,
    INPUT,
    JSON,
    MODEL,
    OUTPUT,
    comma_separated,
    first_or_list,
    key_or_variable,
)


def test_an_option_sets_its_key() -> None:
    assert OUTPUT.overrides("a b.jsonl") == ['++output_jsonl_fpath="a b.jsonl"']
    assert INPUT.overrides(("a", "b")) == ['++input_jsonl_fpath=["a","b"]']
    assert CONCURRENCY.overrides("auto") == ["++num_samples_in_parallel=auto"]
    assert JSON.overrides(True) == ["++json=true"]
    assert [flag.overrides(value) for flag, value in ((OUTPUT, None), (INPUT, ()), (JSON, False))] == [[]] * 3


def test_a_url_has_two_options() -> None:
    assert [flag.parameter for flag in MODEL] == ["model", "model_url", "model_api_key"]
    assert MODEL[1].option().opts == ["--model-url", "--url"]


def test_values_are_one_text_or_a_list() -> None:
    assert first_or_list(("a",)) == '"a"'
    assert comma_separated("a,b") == '["a","b"]'


def test_a_key_is_read_from_a_variable_and_a_literal_warns(capsys: pytest.CaptureFixture[str]) -> None:
    assert key_or_variable("env:MY_KEY") == "${oc.env:MY_KEY}"
    assert capsys.readouterr().err == ""
    assert key_or_variable("sk-secret") == '"sk-secret"'
    warning = capsys.readouterr().err
    assert "write --model-api-key env:NAME" in warning
    assert "sk-secret" not in warning


@pytest.mark.parametrize(
    ("text", "override"),
    [
        ("127.0.0.1:11000", '++head_server={host: "127.0.0.1", port: 11000}'),
        ("http://node-7:80", '++head_server={host: "node-7", port: 80}'),
    ],
)
def test_the_address_of_a_head_server_is_a_host_and_a_port(text: str, override: str) -> None:
    assert HEAD.overrides(text) == [override]


@pytest.mark.parametrize("text", ["127.0.0.1", "11000", ":11000", "host:port", "host:99999", ""])
def test_an_address_without_a_port_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not HOST:PORT"):
        HEAD.overrides(text)
