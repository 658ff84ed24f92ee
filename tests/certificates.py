"""Certificates of an authority that exists for one test."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import trustme

LOOPBACK = ("127.0.0.1", "localhost")


class Authority:
    """Signs certificates. `ca` is the file with its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(self, *names: str, to: str = "", not_after: datetime | None = None) -> dict[str, str]:
        """Return the value of `tls` for a machine that is called by `names`, its files below the folder `to`."""
        folder = self._folder / to
        folder.mkdir(exist_ok=True)
        issued = self._authority.issue_cert(*(names or LOOPBACK), not_after=not_after)
        cert, key = folder / "cert.pem", folder / "key.pem"
        cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        key.touch(mode=0o600)
        issued.private_key_pem.write_to_path(key)
        return {"cert": str(cert), "key": str(key), "ca": str(self.ca)}


def overrides_of(tls: dict[str, str]) -> list[str]:
    """Return the overrides of a command line that set `tls`."""
    return [f"+tls.{key}={path}" for key, path in tls.items()]
