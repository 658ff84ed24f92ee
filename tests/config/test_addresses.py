from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.config.addresses import is_loopback, list_fixed_addresses
from tests.config.small_gym import POLICY, load_in, only, problems_in, write_gym

LINE = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)
WEATHER = "weather.resources_servers.weather"
TOKEN = "+run_token=0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_gym(tmp_path)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_loopback_addresses_need_no_token(folder: Path, host: str) -> None:
    assert is_loopback(host)
    assert load_in(folder, f"+default_host='{host}'").data["head_server"]["host"] == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "node-17", "example.com"])
def test_other_addresses_need_one(folder: Path, host: str) -> None:
    assert not is_loopback(host)
    override = f"+default_host='{host}'"
    where, message, remedy = only(problems_in(folder, override))
    assert where == f"command line: {override}"
    assert (
        message
        == f"default_host: a server at {host} can be reached from other machines, but there is no token."
    )
    assert remedy is not None
    assert remedy.startswith("Set run_token to a long random text")
    assert "open_network: true" in remedy
    for accepted in (TOKEN, "+open_network=true"):
        assert load_in(folder, override, accepted).data["default_host"] == host


def test_every_open_address_is_reported(folder: Path) -> None:
    overrides = ("+default_host=0.0.0.0", "+head_server.host=10.0.0.1", f"+{WEATHER}.host=10.0.0.2")
    problems = problems_in(folder, *LINE, *overrides)
    assert [str(each.where) for each in problems] == [f"command line: {each}" for each in overrides]


def test_the_machines_own_address_is_an_open_one(folder: Path) -> None:
    config = load_in(folder, "+use_absolute_ip=true", TOKEN)
    host = config.data["default_host"]
    assert config.data["head_server"]["host"] == host
    if not is_loopback(host):
        assert only(problems_in(folder, "+use_absolute_ip=true"))[0] == "command line: +use_absolute_ip=true"


def test_a_short_token_is_refused_and_not_shown(folder: Path) -> None:
    where, message, _ = only(problems_in(folder, "+run_token=canary"))
    assert where == "command line: +run_token=****"
    assert message == "run_token: String should have at least 16 characters."


def test_a_port_given_twice_is_reported(folder: Path) -> None:
    problems = problems_in(folder, *LINE, f"+{WEATHER}.port=12000", "+head_server.port=12000")
    assert only(problems) == (
        f"command line: +{WEATHER}.port=12000",
        "weather and head_server have the same port, 12000.",
        "Give one of them another port, or omit the port to get a free one.",
    )


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("port", "99999", "less than or equal to 65535, not 99999."),
        ("port", "x", "a whole number, not 'x'."),
        ("port", "true", "a whole number, not True."),
        ("num_workers", "0", "greater than or equal to 1, not 0."),
    ],
)
def test_wrong_numbers_are_reported(folder: Path, key: str, value: str, wanted: str) -> None:
    (problem,) = problems_in(folder, *LINE, f"+{WEATHER}.{key}={value}")
    assert problem.message == f"{WEATHER}.{key} must be {wanted}"


@pytest.mark.parametrize("urls", ["localhost:8000/v1", "[localhost:8000/v1,http://other/v1]"])
def test_a_url_without_a_scheme_is_reported_where_it_is_set(folder: Path, urls: str) -> None:
    override = f"++policy_base_url={urls}"
    assert only(problems_in(folder, *LINE, override)) == (
        f"command line: {override}",
        "policy_base_url: 'localhost:8000/v1' is not a URL.",
        "Did you mean 'http://localhost:8000/v1'?",
    )


def test_a_url_of_a_route_is_reported_with_its_base(folder: Path) -> None:
    override = "++policy_base_url=http://user:pass-word@localhost:8000/v1/chat/completions"
    where, message, remedy = only(problems_in(folder, *LINE, override))
    assert message == (
        "policy_base_url: 'http://****@localhost:8000/v1/chat/completions' is a route, not a base URL."
    )
    assert remedy == "Did you mean 'http://****@localhost:8000/v1'?"
    assert "pass-word" not in where


def test_an_empty_port_range_is_reported(folder: Path) -> None:
    problems = problems_in(folder, "+port_range_low=20", "+port_range_high=10")
    assert only(problems)[1] == "port_range_low (20) is above port_range_high (10)."


def test_missing_hosts_and_ports_are_left_to_the_launcher(folder: Path) -> None:
    config = load_in(folder, *LINE, f"+{WEATHER}.port=12000", "+head_server.port=0")
    assert [
        (each.server, each.host, each.port) for each in list_fixed_addresses(config.servers, config.data)
    ] == [("weather", "127.0.0.1", 12000)]
    assert all("host" not in server.config for server in config.servers)
