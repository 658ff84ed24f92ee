"""Finds the address and token of a running gym."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from nemo_gym.discovery_files import (
    discovery_names,
    discovery_path,
    name_to_read,
    read_discovery,
    run_in,
)
from nemo_gym.failures import ConfigError
from nemo_gym.names import HEAD_SERVER, TLS_KEY


@dataclass(frozen=True, slots=True)
class GymAddress:
    """The URL and token of a gym's head server."""

    url: str
    """`http://host:port`, or `https://` for a gym with TLS."""
    token: str | None = field(default=None, repr=False)
    """The run's token; None for a gym without one."""
    ca: str | None = None
    """The file of certificates to trust; None for those that this machine trusts."""


def locate_gym(url: str, ca: str | None = None) -> GymAddress:
    """Return the address of the gym whose head server listens at `url`.

    It has the token, and by default the `ca`, if this process started the gym (`RunHelper`) or if the gym was started
    in the working folder.
    """
    own = _own_address(url.rstrip("/")) or GymAddress(url)
    return replace(own, url=url, ca=ca or own.ca)


def _own_address(url: str) -> GymAddress | None:
    if "nemo_gym.config.current" in sys.modules:  # a gym of this process has set its configuration there
        from nemo_gym.config.current import read_run_token, read_run_value
        from nemo_gym.tls import read_ca
        from nemo_gym.transport.directory import head_url

        own = {key: read_run_value(key) for key in (HEAD_SERVER, TLS_KEY)}
        if own[HEAD_SERVER] and own[HEAD_SERVER].get("port") and head_url(own) == url:
            return GymAddress(url, read_run_token(), read_ca(own))
    for name in discovery_names(Path.cwd()):
        with contextlib.suppress(ConfigError):  # the gym was started elsewhere
            found = find_address(name=name)
            if found.url == url:
                return found
    return None


def find_address(folder: Path | None = None, name: str | None = None) -> GymAddress:
    """Return the address of the gym started in `folder` (default: the working folder).

    `name`: its discovery name, needed only if several gyms run in the folder. Raises `ConfigError` if there is none.
    """
    folder = folder or Path.cwd()
    name = name_to_read(folder, name)
    document = read_discovery(folder, name)
    if document is None:
        raise ConfigError(
            f"no gym was started in {folder}",
            code="no_gym",
            remedy="Start one there with gym env start (ng_run), or use Gym.connect(url=..., token=...).",
        )
    head, token, ca = (run_in(document).get(key) for key in ("head", "token", "ca"))
    if not isinstance(head, str):
        raise ConfigError(
            f"{discovery_path(folder, name)} has no head server",
            code="discovery_damaged",
            remedy="Start the gym again.",
        )
    return GymAddress(head, str(token) if token is not None else None, str(ca) if ca is not None else None)
