"""The directory of a gym on several machines, whose replicas move, are added and are removed.

Its document has a *version* that increases with every change, and every replica a *generation* that increases with the
loss of its node. A call in flight to an earlier generation is ended by `update`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nemo_gym.failures import TransportError
from nemo_gym.names import DIRECTORY_KEY
from nemo_gym.transport.deadline import Timer
from nemo_gym.transport.directory import Directory, choose_home

NODE_LOST = "node_lost"
"""The failure code of a call to a replica that is no longer there."""
_SESSIONS_REMEMBERED = 50_000


def build_directory(config: Mapping[str, Any]) -> Directory:
    """Return the directory of a running gym's servers."""
    if DIRECTORY_KEY in config:
        return MovingDirectory(config[DIRECTORY_KEY])
    return Directory.from_config(config)


class MovingDirectory(Directory):
    """Server names, and the addresses and generations of their replicas."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """`document`: as for `update`."""
        super().__init__({})
        self.version = 0
        self.head_url = ""
        """The head server, which answers the current document."""
        self._taking: Mapping[str, int] = {}
        """Server → the number of its first replicas that take new sessions, if some of the others leave."""
        self._generations: dict[str, int] = {}
        """Base URL → the generation of the replica there."""
        self._names: frozenset[str] = frozenset()
        """The replicas that are there, as `server/number/generation`."""
        self._calls: defaultdict[str, dict[Timer, None]] = defaultdict(dict)
        """Base URL → the calls in flight to it, in the order in which they began."""
        self._homes: dict[tuple[str, str], int] = {}
        """Server and session → the number of the session's replica. A session stays when replicas are added."""
        self.update(document)

    def update(self, document: Mapping[str, Any]) -> None:
        """Take the replicas of a later version, and end the calls in flight to those that are no longer there.

        `document`: `version`, `head` (a base URL), `servers` (name → pairs of base URL and generation) and, while
        replicas leave, `taking` (name → the number of the first replicas that take new sessions).
        """
        if document["version"] <= self.version:
            return
        self.version, self.head_url = document["version"], document["head"]
        self._taking = document.get("taking", {})
        pairs = {name: [tuple(pair) for pair in replicas] for name, replicas in document["servers"].items()}
        self._replicas = {name: tuple(url for url, _ in replicas) for name, replicas in pairs.items()}
        for name in self._replicas:
            self._round_robin.setdefault(name, itertools.count())
        before, self._generations = self._generations, dict(itertools.chain(*pairs.values()))
        self._names = frozenset(
            f"{name}/{number}/{generation}"
            for name, replicas in pairs.items()
            for number, (_, generation) in enumerate(replicas)
        )
        for url in [url for url in self._calls if before.get(url) != self._generations.get(url)]:
            for call in self._calls.pop(url):
                call.expire()

    def choose(self, server: str, session: str | None, is_out: Callable[[str], bool] | None = None) -> str:
        """Return the replica for `session`. Raises `TransportError` after the removal of its replica."""
        urls = self._replicas.get(server) or self.replicas(server)
        taking = self._taking.get(server, len(urls))
        if session is None:
            return self._next(server, urls[:taking], is_out)
        number = self._homes.get((server, session))
        if number is None:
            number = choose_home(session, taking)
            self._homes[server, session] = number
            if len(self._homes) > _SESSIONS_REMEMBERED:
                del self._homes[next(iter(self._homes))]
        if number >= len(urls):
            raise TransportError(
                f"replica {number} of `{server}` was removed, and session {session} with it",
                code=NODE_LOST,
                retryable=True,
                peer=server,
            )
        return urls[number]

    def has_lost(self, replica: str) -> bool:
        """Return whether the replica named `server/number/generation` is no longer there."""
        return replica not in self._names

    def generation(self, url: str) -> int:
        """Return the current generation of the replica at `url`."""
        return self._generations[url]

    @contextmanager
    def calling(self, url: str) -> Iterator[Timer]:
        """Within the block, the current task is cancelled when the replica at `url` is no longer there."""
        call = Timer(None)
        self._calls[url][call] = None
        try:
            yield call
        finally:
            self._calls.get(url, {}).pop(call, None)
            call.stop()
