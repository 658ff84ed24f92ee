"""A running gym, asked for rollouts: `Gym` for plain code, `AsyncGym` for event loops."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

from nemo_gym.client.connecting import Address, find_address
from nemo_gym.client.rollout import Rollout, broken_off, read_line, refusal
from nemo_gym.failures import ConfigError, TransportError
from nemo_gym.names import TOKEN_HEADER

CONNECT_TIMEOUT_S = 10.0
_PATH = "/rollouts"


class RolloutOptions(TypedDict, total=False):
    """How rows are run, in the words of `ng_collect_rollouts`."""

    num_samples_in_parallel: int
    """Rollouts in flight; 64 unless given."""
    max_attempts: int
    """Attempts at a rollout, where its failure may pass; 3 unless given."""
    rollout_timeout_s: float | None
    """Seconds an attempt may take, None for no bound; 1,800 unless given."""
    stop_after_identical_failures: int
    """Rollouts that may fail alike, one after the other, before the rest is given up, 0 for any number; 20 unless
    given."""
    num_repeats_add_seed: bool
    """Give each repeat its number as the seed of sampling."""
    agent_name: str
    """The agent of rows that name none."""
    responses_create_params: Mapping[str, Any]
    """Laid over those of every row."""


@dataclass(frozen=True, slots=True)
class _Client:
    address: Address

    def _headers(self) -> dict[str, str]:
        token = {TOKEN_HEADER: self.address.token} if self.address.token else {}
        return {"content-type": "application/json", **token}


class Gym(_Client):
    """A running gym."""

    @classmethod
    def connect(cls, folder: Path | None = None, *, url: str | None = None, token: str | None = None) -> Gym:
        """The gym whose head server listens at `url`, or else the one that was started in `folder`.

        Raises `ConfigError` where no gym was started.
        """
        return cls(Address(url, token) if url is not None else find_address(folder))

    def rollouts(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        num_repeats: int = 1,
        **options: Unpack[RolloutOptions],
    ) -> Generator[Rollout, None, None]:
        """The rollouts of task rows, in the order in which they finish; failures are among them.

        They are begun when the first is asked for. Whoever reads slowly slows them down, and whoever leaves ends them.

        Args:
            rows: task rows; a rollout's `task` is the place of its row.
            num_repeats: rollouts of each row.
            options: those of `RolloutOptions`.

        Raises:
            InputError: rows or options can't be used; nothing was run.
            TransportError: the gym is out of reach, or broke off.
            GymError: the gym gave up, because rollout after rollout failed alike.
        """
        connection = _connection(self.address.url)
        try:
            yield from self._stream(connection, _body_of(rows, num_repeats, options))
        finally:
            connection.close()

    def update_policy(
        self,
        version: int | str,
        *,
        server: str = "policy_model",
        drop_in_flight: bool = False,
        reload_weights: bool = False,
    ) -> None:
        """Tell a model server, all processes of it, which version of the policy answers from now on.

        Args:
            version: stamped on every call, and in the rows.
            server: the model server's name.
            drop_in_flight: give up calls that began with an earlier version.
            reload_weights: have the engine load its weights from the model's folder first.

        Raises:
            TransportError: the gym is out of reach.
            GymError: there is no such model server, or it refused.
        """
        update = {"version": version, "drop_in_flight": drop_in_flight, "reload_weights": reload_weights}
        instances = self._exchange(self.address.url, "GET", "/server_instances")
        url = _url_of(server, instances, self.address.url)
        self._exchange(url, "POST", "/policy_version", json.dumps(update).encode())

    def _exchange(self, url: str, method: str, path: str, body: bytes | None = None) -> Any:
        """The JSON of a whole answer."""
        connection = _connection(url)
        try:
            _connect(connection)
            connection.request(method, path, body=body, headers=self._headers())
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(url, error) from error
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise refusal(answer.status, content, url)
        return json.loads(content)

    def _stream(self, connection: http.client.HTTPConnection, body: bytes) -> Iterator[Rollout]:
        url = self.address.url
        try:
            _connect(connection)
            connection.request("POST", _PATH, body=body, headers=self._headers())
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(url, error) from error
        if answer.status != http.HTTPStatus.OK:
            raise refusal(answer.status, answer.read(), url)
        is_whole = False
        for line in _read_lines(answer, url):
            if not line.endswith(b"\n"):
                raise broken_off(url)
            rollout = read_line(line)
            if rollout is None:
                is_whole = (
                    True  # and the end of the body is still to be read: leaving before it breaks it off
                )
            else:
                yield rollout
        if not is_whole:
            raise broken_off(url)


class AsyncGym(_Client):
    """A running gym, for event loops. Needs aiohttp."""

    @classmethod
    def connect(
        cls, folder: Path | None = None, *, url: str | None = None, token: str | None = None
    ) -> AsyncGym:
        """As `Gym.connect`."""
        return cls(Address(url, token) if url is not None else find_address(folder))

    async def rollouts(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        num_repeats: int = 1,
        **options: Unpack[RolloutOptions],
    ) -> AsyncGenerator[Rollout, None]:
        """As `Gym.rollouts`. Close the iterator (`contextlib.aclosing`) where a loop may be left early."""
        import aiohttp

        url = self.address.url
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        is_whole = False
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 22) as session,
                session.post(
                    url + _PATH, data=_body_of(rows, num_repeats, options), headers=self._headers()
                ) as answer,
            ):
                if answer.status != http.HTTPStatus.OK:
                    raise refusal(answer.status, await answer.read(), url)
                async for line in _lines(answer.content):
                    rollout = read_line(line)
                    if rollout is None:
                        is_whole = True
                    else:
                        yield rollout
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _unreachable(url, error) from error
        except aiohttp.ClientError as error:
            raise broken_off(url, error) from error
        if not is_whole:
            raise broken_off(url)

    async def update_policy(
        self,
        version: int | str,
        *,
        server: str = "policy_model",
        drop_in_flight: bool = False,
        reload_weights: bool = False,
    ) -> None:
        """As `Gym.update_policy`."""
        await asyncio.to_thread(
            Gym(self.address).update_policy,
            version,
            server=server,
            drop_in_flight=drop_in_flight,
            reload_weights=reload_weights,
        )


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=CONNECT_TIMEOUT_S)


def _connect(connection: http.client.HTTPConnection) -> None:
    """Raises OSError. How long an answer may take is not the socket's to say: rollouts and weights take their time."""
    connection.connect()
    connection.sock.settimeout(None)


def _url_of(server: str, instances: Iterable[Mapping[str, Any]], peer: str) -> str:
    """The URL of a model server, or of the first of its processes."""
    models = {each["name"]: each for each in instances if each["server_type"] == "responses_api_models"}
    if server not in models:
        raise ConfigError(
            f"the gym at {peer} has no model server named `{server}`",
            code="unknown_server",
            remedy=f"Its model servers are: {', '.join(models) or 'none'}.",
        )
    url: str = models[server]["url"]
    return url


def _read_lines(answer: http.client.HTTPResponse, url: str) -> Iterator[bytes]:
    try:
        yield from iter(answer.readline, b"")
    except (OSError, http.client.HTTPException) as error:
        raise broken_off(url, error) from error


async def _lines(content: Any) -> AsyncIterator[bytes]:
    """The lines of a body, however long they are."""
    begun: list[bytes] = []
    async for chunk in content.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*begun, end])
            begun.clear()
        begun.append(rest)


def _body_of(rows: Iterable[Mapping[str, Any]], num_repeats: int, options: Mapping[str, Any]) -> bytes:
    return json.dumps({"rows": list(rows), "num_repeats": num_repeats, **options}).encode()


def _unreachable(url: str, error: Exception) -> TransportError:
    return TransportError(
        f"no gym answers at {url} ({error})",
        code="connect_refused",
        retryable=True,
        remedy="Start it with ng_run.",
        peer=url,
    )
