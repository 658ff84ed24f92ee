from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.tls import (
    context_trusting,
    context_trusting_also,
    find_tls_faults,
    is_valid_for,
    read_ca,
    require_usable,
    server_context,
)
from tests.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@pytest.fixture
def tls(authority: Authority) -> dict[str, str]:
    return authority.issue()


def told(tls: dict[str, str], *hosts: str) -> list[str]:
    return [fault.message for fault in find_tls_faults(tls, hosts)]


def test_a_gym_without_tls_has_no_contexts() -> None:
    assert (server_context({}), context_trusting(read_ca({}))) == (None, None)
    require_usable({})


def test_both_contexts_speak_tls_12_or_later_and_clients_check_names(tls: dict[str, str]) -> None:
    server, client = server_context({"tls": tls}), context_trusting(tls["ca"])
    assert server is not None
    assert client is not None
    assert server.minimum_version == client.minimum_version == ssl.TLSVersion.TLSv1_2
    assert server.num_tickets == 0, "a client takes bytes before its request for an answer to another one"
    assert client.check_hostname
    assert client.verify_mode is ssl.CERT_REQUIRED
    assert len(client.get_ca_certs()) == 1, "and none of this machine"
    assert len(context_trusting_also(tls["ca"]).get_ca_certs()) >= 1


def test_a_certificate_is_valid_for_the_names_that_it_has(authority: Authority) -> None:
    tls = authority.issue("node1", "10.0.0.1")
    assert told(tls, "node1", "10.0.0.1") == []
    assert (is_valid_for(tls, "node1"), is_valid_for(tls, "10.0.0.2")) == (True, False)
    assert told(tls, "node1", "node2", "127.0.0.1") == [
        f"tls.cert: {tls['cert']} is not valid for node2, 127.0.0.1, where servers are called."
    ]


def test_every_file_that_cannot_be_used_is_told_at_once(tls: dict[str, str], tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    assert told({"cert": missing, "ca": missing}) == [
        f"tls.cert: {missing} cannot be read: No such file or directory.",
        "tls.key is missing.",
        f"tls.ca: {missing} cannot be read: No such file or directory.",
    ]
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    text.chmod(0o600)
    assert told({**tls, "cert": str(text), "ca": str(text)}) == [
        f"tls.{key}: {text} is no certificate in PEM form." for key in ("ca", "cert")
    ]
    assert told({**tls, "key": str(text)}) == [f"tls.key: {text} is no private key in PEM form."]


def test_a_key_of_another_certificate_is_told(tls: dict[str, str], authority: Authority) -> None:
    other = authority.issue(to="other")
    assert told({**tls, "key": other["key"]}) == [
        f"tls.key: {other['key']} does not belong to the certificate {tls['cert']}."
    ]


@pytest.mark.parametrize("mode", [0o644, 0o640 | 0o002, 0o604])
def test_a_key_that_others_can_access_is_refused(tls: dict[str, str], mode: int) -> None:
    Path(tls["key"]).chmod(mode)
    assert told(tls) == [f"tls.key: other users can access {tls['key']} (mode {mode:04o})."]
    with pytest.raises(ConfigError, match="other users can access"):
        server_context({"tls": tls})


def test_a_key_with_a_password_is_told(tls: dict[str, str]) -> None:
    Path(tls["key"]).write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII\n-----END ENCRYPTED PRIVATE KEY-----"
    )
    (message,) = told(tls)
    assert "has a password" in message


def test_an_expired_certificate_and_one_of_another_authority_are_told(
    authority: Authority, tmp_path: Path
) -> None:
    expired = authority.issue(not_after=datetime.now(UTC) - timedelta(days=1))
    assert told(expired, "127.0.0.1") == [
        f"tls.cert: clients with tls.ca {authority.ca} refuse {expired['cert']}: certificate has expired."
    ]
    with pytest.raises(ConfigError, match="certificate has expired"):
        require_usable({"tls": expired})
    (fault,) = find_tls_faults({**authority.issue(), "ca": str(Authority(tmp_path / "b").ca)}, ["127.0.0.1"])
    assert "unable to get local issuer certificate" in fault.message
    assert "tls.ca must hold" in fault.remedy


def test_an_unusable_ca_of_a_client_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.ca: .*none\.pem cannot be read"):
        context_trusting(str(tmp_path / "none.pem"))
