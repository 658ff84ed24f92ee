from __future__ import annotations

import os
import socket

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.launch.sockets import HeldSocket, PortRange, hold, hold_free


def test_a_held_port_accepts_connections_before_it_is_served() -> None:
    held = hold("127.0.0.1", 0, holder_of="server")
    try:
        with socket.create_connection((held.host, held.port), timeout=30):
            pass
    finally:
        held.close()


def test_a_taken_port_is_an_error_that_names_the_holder() -> None:
    held = hold("127.0.0.1", 0, holder_of="first")
    try:
        with pytest.raises(ConfigError) as caught:
            hold("127.0.0.1", held.port, holder_of="second")
    finally:
        held.close()
    assert caught.value.failure.code == "port_taken"
    assert f"port {held.port} of `second` is taken by pid {os.getpid()} (" in caught.value.failure.message


def test_a_closed_port_can_be_held_again_at_once() -> None:
    held = hold("127.0.0.1", 0, holder_of="server")
    with socket.create_connection((held.host, held.port), timeout=30):
        connection, _ = held.listener.accept()
        connection.close()  # closing first leaves the connection in TIME_WAIT on our side
    held.close()
    hold("127.0.0.1", held.port, holder_of="server").close()


def test_a_foreign_host_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1") as caught:
        hold_free("192.0.2.1", PortRange(), holder_of="server")
    assert caught.value.failure.code == "cannot_listen"


def test_ports_come_from_the_range_and_none_is_disallowed_or_taken() -> None:
    first = hold("127.0.0.1", 0, holder_of="first")
    ports = PortRange(first.port, first.port + 20, disallowed=(first.port + 1,))
    second = hold_free("127.0.0.1", ports, holder_of="second")
    first.close()
    second.close()
    assert first.port + 1 < second.port <= first.port + 20


def test_a_range_without_a_free_port_is_an_error_that_names_it() -> None:
    held = hold("127.0.0.1", 0, holder_of="first")
    try:
        with pytest.raises(ConfigError, match=f"no port from {held.port} to {held.port} is free"):
            hold_free("127.0.0.1", PortRange(held.port, held.port), holder_of="second")
    finally:
        held.close()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("10.1.2.3", "http://10.1.2.3:80"),
    ],
)
def test_the_url_is_one_that_a_client_here_can_connect_to(host: str, url: str) -> None:
    with socket.socket() as unbound:
        assert HeldSocket(unbound, host, 80).url == url
