"""TLS between the processes of a gym: its files, their checks, and the only place that makes SSL contexts.

`tls: {cert, key, ca}` names files at the same paths on every machine, which may have a certificate of its own there.
With it, servers speak nothing but TLS, and clients accept only certificates that `ca` signed and that are valid for the
host in the URL. Importing `ssl` takes 5 ms, so commands without TLS that start no event loop do not import this module.

A certificate is checked by a handshake in memory, so the check accepts what clients accept.
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.failures import ConfigError, append_remedy
from nemo_gym.names import TLS_KEY

FILES = ("cert", "key", "ca")
_HANDSHAKE_ROUNDS = 4
"""More than the turns that two ends of a handshake take."""
_EXPIRED, _NOT_YET_VALID = 10, 9  # X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID


class TlsFault(NamedTuple):
    """An error in the TLS files."""

    key: str
    """`cert`, `key` or `ca`."""
    message: str
    remedy: str


def uses_tls(config: Mapping[str, Any]) -> bool:
    """Return whether the servers of a gym speak TLS."""
    return bool(config.get(TLS_KEY))


# --- Contexts -----------------------------------------------------------------------------------------------------


def server_context(config: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the context with which servers listen; None without TLS. Raises `ConfigError` for unusable files."""
    if not uses_tls(config):
        return None
    return _usable(_new_server_context, config[TLS_KEY], "cert", "key")


def read_ca(config: Mapping[str, Any]) -> str | None:
    """Return the file of certificates that clients of a gym trust; None without TLS."""
    return str(config[TLS_KEY]["ca"]) if uses_tls(config) else None


@lru_cache
def context_trusting(ca: str | None) -> ssl.SSLContext | None:
    """Return the context of calls to the servers of a gym; None without a `ca`, which is a gym without TLS.

    It accepts only what the certificates in the file `ca` have signed, and checks host names. Raises `ConfigError` if
    the file is unusable.
    """
    return _usable(_new_client_context, {"ca": ca}, "ca") if ca is not None else None


@lru_cache
def context_trusting_also(ca: str) -> ssl.SSLContext:
    """Return a context that accepts what this machine accepts, and what the certificates in `ca` have signed."""
    context = ssl.create_default_context()
    context.load_verify_locations(ca)
    return context


def _usable(
    make: Callable[[Mapping[str, str]], ssl.SSLContext], files: Mapping[str, str], *keys: str
) -> ssl.SSLContext:
    faults = [fault for key in keys for fault in _file_faults(key, files.get(key))]
    if not faults:
        try:
            return make(files)
        except OSError as error:  # ssl.SSLError included
            faults = _unusable(files, error)
    raise _build_error(faults)


def _build_error(faults: Sequence[TlsFault]) -> ConfigError:
    if len(faults) == 1:
        return ConfigError(faults[0].message, code="invalid_config", remedy=faults[0].remedy)
    lines = [append_remedy(fault.message, fault.remedy) for fault in faults]
    return ConfigError("\n".join(lines), code="invalid_config")


def _new_server_context(files: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # An empty password, because OpenSSL otherwise asks the terminal for that of an encrypted key.
    context.load_cert_chain(files["cert"], files["key"], password="")
    # The gym's clients keep their connections, so nobody resumes a session. Tickets would be data before any request.
    context.num_tickets = 0
    return context


def _new_client_context(files: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files["ca"])
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


# --- Checks -------------------------------------------------------------------------------------------------------


def find_tls_faults(tls: Mapping[str, str], hosts: Sequence[str]) -> list[TlsFault]:
    """Return the errors in the files with which servers listen on this machine and are called as `hosts`."""
    faults = [fault for key in FILES for fault in _file_faults(key, tls.get(key))]
    if faults:
        return faults
    try:
        server = _new_server_context(tls)
        client = _new_client_context(tls)
    except OSError as error:
        return _unusable(tls, error)
    return [*_certificate_faults(tls, server, client, hosts)]


def require_usable(config: Mapping[str, Any], *hosts: str) -> None:
    """Raise `ConfigError` if a gym uses TLS and its files are unusable for servers here that are called as `hosts`."""
    if uses_tls(config) and (faults := find_tls_faults(config[TLS_KEY], hosts)):
        raise _build_error(faults)


def is_valid_for(tls: Mapping[str, str], host: str) -> bool:
    """Return whether clients accept this machine's certificate for `host`. The files are usable."""
    return _refusal(_new_server_context(tls), _new_client_context(tls), host) is None


def _certificate_faults(
    tls: Mapping[str, str], server: ssl.SSLContext, client: ssl.SSLContext, hosts: Sequence[str]
) -> Iterator[TlsFault]:
    client.check_hostname = False
    refusal = _refusal(server, client, "localhost")
    if refusal is not None:
        remedies = {_EXPIRED: "Renew it.", _NOT_YET_VALID: "Check the clock of this machine."}
        remedy = "tls.ca must hold the certificate of the authority that signed it."
        yield TlsFault(
            "cert",
            f"tls.cert: clients with tls.ca {tls['ca']} refuse {tls['cert']}: {refusal.verify_message}.",
            remedies.get(refusal.verify_code, remedy),
        )
        return
    client.check_hostname = True
    unnamed = [host for host in hosts if _refusal(server, client, host) is not None]
    if unnamed:
        yield TlsFault(
            "cert",
            f"tls.cert: {tls['cert']} is not valid for {', '.join(unnamed)}, where servers are called.",
            "Make one with these names and addresses as its subjectAltName, or have servers called by a name that it "
            "has: default_host, or advertised_host with hosts.",
        )


def _refusal(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str
) -> ssl.SSLCertVerificationError | None:
    """Return the error of a client that calls `host` and reaches `server`; None if it accepts the certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for _ in range(_HANDSHAKE_ROUNDS):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError as refusal:
        return refusal
    return None


def _file_faults(key: str, path: str | None) -> Iterator[TlsFault]:
    if path is None:
        yield TlsFault(key, f"tls.{key} is missing.", "TLS needs tls.cert, tls.key and tls.ca.")
        return
    try:
        text, status = Path(path).read_bytes(), Path(path).stat()
    except OSError as error:
        yield TlsFault(
            key, f"tls.{key}: {path} cannot be read: {error.strerror}.", "Check the path and its permissions."
        )
        return
    if key == "key":
        yield from _key_faults(path, text, status)


def _key_faults(path: str, text: bytes, status: os.stat_result) -> Iterator[TlsFault]:
    mode = stat.S_IMODE(status.st_mode)
    # A key of root may be readable for a group, as with Debian's ssl-cert.
    if mode & (0o037 if status.st_uid == 0 else 0o077):
        yield TlsFault(
            "key", f"tls.key: other users can access {path} (mode {mode:04o}).", f"chmod 600 {path}"
        )
    if b"ENCRYPTED" in text:
        yield TlsFault(
            "key",
            f"tls.key: {path} has a password, and servers start without anyone to ask.",
            f"Remove it: openssl pkey -in {path} -out KEY",
        )


def _unusable(files: Mapping[str, str], error: OSError) -> list[TlsFault]:
    """Return the errors in readable files of which no context can be made."""
    faults = []
    for key in sorted({"cert", "ca"} & files.keys()):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files[key])
        except OSError:
            message = f"tls.{key}: {files[key]} is no certificate in PEM form."
            faults.append(TlsFault(key, message, "Check the file."))
    if faults:
        return faults
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        message = f"tls.key: {files['key']} does not belong to the certificate {files['cert']}."
        return [TlsFault("key", message, "Use the two files that were made together.")]
    return [TlsFault("key", f"tls.key: {files.get('key')} is no private key in PEM form.", "Check the file.")]
