from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch._addresses import Addresses, hold_addresses
from nemo_gym.launch.sockets import hold
from tests.launch.small_servers import SmallConfig, config_of, small_instance


def held(
    config: SmallConfig, lines: list[str] | None = None, *, head_port_is_fixed: bool = False
) -> Addresses:
    announce = (lines if lines is not None else []).append
    assert isinstance(config.data, dict)
    return hold_addresses(config.data, config.servers, announce, head_port_is_fixed=head_port_is_fixed)


def block_of(config: SmallConfig, name: str) -> dict[str, Any]:
    block: dict[str, Any] = config.data[name]["resources_servers"]["small"]
    return block


def a_server(name: str, num_workers: int = 1) -> ServerInstance:
    return small_instance(name, Path("unused"), num_workers)


def test_every_block_and_the_head_get_the_address_that_is_held() -> None:
    config = config_of(a_server("first"), a_server("second"), head_server={"port": 0})
    addresses = held(config)
    for name in ("first", "second"):
        (socket,) = addresses.servers[name]
        assert block_of(config, name)["host"] == "127.0.0.1"
        assert block_of(config, name)["port"] == socket.port
        assert "_ng_replica_ports" not in block_of(config, name)
    assert config.data["head_server"] == {"host": "127.0.0.1", "port": addresses.head.port}
    addresses.close()


def test_a_fixed_port_is_kept_and_further_workers_get_free_ones() -> None:
    spare = hold("127.0.0.1", 0, holder_of="other")
    spare.close()
    config = config_of(a_server("wide", num_workers=3))
    block_of(config, "wide")["port"] = spare.port
    addresses = held(config)
    ports = [socket.port for socket in addresses.servers["wide"]]
    assert ports[0] == spare.port == block_of(config, "wide")["port"]
    assert block_of(config, "wide")["_ng_replica_ports"] == ports
    assert len(set(ports)) == 3
    addresses.close()


def test_all_taken_ports_are_reported_together_and_all_sockets_released() -> None:
    taken = [hold("127.0.0.1", 0, holder_of="other") for _ in range(2)]
    spare = hold("127.0.0.1", 0, holder_of="other")
    spare.close()
    config = config_of(a_server("first"), a_server("second"), a_server("third"))
    for name, socket in zip(("first", "second", "third"), [*taken, spare], strict=True):
        block_of(config, name)["port"] = socket.port
    with pytest.raises(ConfigErrors) as caught:
        held(config)
    assert [
        f"`{name}`" in str(problem)
        for name, problem in zip(("first", "second"), caught.value.problems, strict=True)
    ]
    hold("127.0.0.1", spare.port, holder_of="third").close()
    for socket in taken:
        socket.close()


def test_a_taken_default_head_port_is_replaced_and_announced() -> None:
    taken = hold("127.0.0.1", 0, holder_of="other")
    config = config_of(head_server={"host": "127.0.0.1", "port": taken.port})
    lines: list[str] = []
    addresses = held(config, lines)
    assert addresses.head.port != taken.port
    assert config.data["head_server"]["port"] == addresses.head.port
    (line,) = lines
    assert line.startswith(f"port {taken.port} of `head_server` is taken by pid ")
    assert line.endswith(f"it listens on port {addresses.head.port} instead")
    addresses.close()
    taken.close()


def test_a_taken_fixed_head_port_is_an_error() -> None:
    taken = hold("127.0.0.1", 0, holder_of="other")
    config = config_of(head_server={"host": "127.0.0.1", "port": taken.port})
    with pytest.raises(ConfigErrors, match="`head_server` is taken"):
        held(config, head_port_is_fixed=True)
    taken.close()


def test_hosts_and_the_port_range_of_the_configuration_are_used() -> None:
    config = config_of(
        a_server("open"), a_server("closed"), default_host="127.0.0.2", head_server={"port": 0}
    )
    block_of(config, "open")["host"] = "0.0.0.0"
    config.data.update(port_range_low=20000, port_range_high=20400, disallowed_ports=[20000])  # type: ignore[attr-defined]
    addresses = held(config)
    assert block_of(config, "open")["host"] == "0.0.0.0"
    assert addresses.servers["open"][0].url == f"http://127.0.0.1:{block_of(config, 'open')['port']}"
    assert block_of(config, "closed")["host"] == "127.0.0.2"
    assert all(20000 < sockets[0].port <= 20400 for sockets in addresses.servers.values())
    addresses.close()
