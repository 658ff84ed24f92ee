"""Finding the address of a running gym."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.client import Gym, GymAddress, find_address
from nemo_gym.config.current import set_global_config_dict
from nemo_gym.discovery_files import DISCOVERY_FILE, discovery_path
from nemo_gym.failures import ConfigError


def test_the_file_of_a_gym_names_its_head_server_and_token(tmp_path: Path) -> None:
    run = "_ng_run: {head: 'http://127.0.0.1:11000', token: 123, pid: 1}"
    (tmp_path / DISCOVERY_FILE).write_text(run)
    assert find_address(tmp_path) == GymAddress("http://127.0.0.1:11000", "123")
    assert "123" not in repr(find_address(tmp_path))


def test_one_of_several_gyms_of_a_folder_is_found_by_its_name_or_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, port in (("", 11000), ("2", 11001)):
        run = f"_ng_run: {{head: 'http://127.0.0.1:{port}', token: secret{name}, pid: 1}}"
        discovery_path(tmp_path, name).write_text(run)
    assert Gym.connect(tmp_path).address == GymAddress("http://127.0.0.1:11000", "secret")
    assert Gym.connect(tmp_path, name="2").address == GymAddress("http://127.0.0.1:11001", "secret2")
    monkeypatch.chdir(tmp_path)
    assert Gym.connect(url="http://127.0.0.1:11001").address.token == "secret2"


def test_where_no_gym_was_started_none_is_found(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no gym was started in"):
        find_address(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"_ng_run: 7", b"_ng_run: {token: secret}", b"api_key: 'secret", b"key: \xff\xfe secret"],
)
def test_a_torn_file_is_reported_without_its_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DISCOVERY_FILE).write_bytes(content)
    with pytest.raises(ConfigError, match="has no head server") as caught:
        find_address(tmp_path)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None  # a parser's error quotes the line


def test_a_gym_that_this_process_started_gives_its_token_to_its_own_url_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    set_global_config_dict({"head_server": {"host": "0.0.0.0", "port": 11000}, "run_token": "secret"})
    try:
        assert Gym.connect(url="http://127.0.0.1:11000/").address.token == "secret"
        assert Gym.connect(url="http://127.0.0.1:11000", token="mine").address.token == "mine"
        assert Gym.connect(url="http://other:11000").address.token is None
    finally:
        set_global_config_dict(None)


def test_a_gym_of_the_working_folder_gives_its_token_to_its_own_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / DISCOVERY_FILE).write_text("_ng_run: {head: 'http://127.0.0.1:11000', token: secret, pid: 1}")
    assert Gym.connect(url="http://127.0.0.1:11000").address.token == "secret"
    assert Gym.connect(url="http://127.0.0.1:11001").address.token is None
