"""The server processes of a configuration: one for each socket, the head server first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_gym.launch._addresses import Addresses
from nemo_gym.launch.plan import RunKeys, ServerPlan
from nemo_gym.launch.sockets import hold
from tests.launch.small_servers import small_instance, write_server


def test_every_socket_has_a_process_and_the_head_server_is_first(tmp_path: Path) -> None:
    wide, plain = (write_server(tmp_path / "resources_servers" / name) for name in ("wide", "plain"))
    (plain / "requirements.txt").write_text("orjson\n")
    head = hold("127.0.0.1", 0, holder_of="head_server")
    sockets = {
        name: [hold("127.0.0.1", 0, holder_of=name) for _ in range(count)]
        for name, count in (("wide", 2), ("plain", 1))
    }
    keys = RunKeys.from_config({"run_token": "a-token-of-16-letters"})
    instances = [small_instance("wide", wide, 2), small_instance("plain", plain)]
    config: dict[str, Any] = {"wide": {}, "plain": {}}
    servers = ServerPlan(config, keys, tmp_path / "logs").servers(instances, Addresses(head, sockets))
    assert [(each.name, each.replica, each.url) for each in servers] == [
        ("head_server", 0, head.url),
        *(("wide", replica, held.url) for replica, held in enumerate(sockets["wide"])),
        ("plain", 0, sockets["plain"][0].url),
    ]
    assert [each.requirements for each in servers] == [None, None, None, plain / "requirements.txt"]
    assert len({each.log_path for each in servers}) == 4
    for each in servers:
        assert each.process.bootstrap.run_token == "a-token-of-16-letters"
        assert each.process.bootstrap.replica == each.replica
    assert servers[1].process.search_path[:2] == (str(wide), str(tmp_path))
    assert str(servers[0].process.script.parent) not in servers[0].process.search_path
    for held in (head, *sockets["wide"], *sockets["plain"]):
        held.close()


def test_keys_are_random_and_in_no_text() -> None:
    first, second = RunKeys(), RunKeys.from_config({})
    assert first.token != second.token
    assert first.cookie_key != second.cookie_key
    assert first.token not in repr(first)
    assert first.cookie_key not in repr(first)
