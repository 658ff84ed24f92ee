"""A running gym, asked for rollouts: `Gym` for plain code, `AsyncGym` for event loops."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from nemo_gym.client._connecting import GymAddress, find_address
from nemo_gym.client._rollout import Rollout, broken_off, read_line, refusal
from nemo_gym.failures import ConfigError, TransportError
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.processes.event_loop_thread import EventLoopThread

if TYPE_CHECKING:
    import aiohttp

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
    address: GymAddress

    @classmethod
    def connect(cls, folder: Path | None = None, *, url: str | None = None, token: str | None = None) -> Self:
        """The gym whose head server listens at `url`, or else the one that was started in `folder`.

        Raises `ConfigError` where no gym was started.
        """
        return cls(GymAddress(url, token) if url is not None else find_address(folder))


class Gym(_Client):
    """A running gym, for code that waits. Its calls are those of `AsyncGym`, in an event loop of their own."""

    def rollouts(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        num_repeats: int = 1,
        **options: Unpack[RolloutOptions],
    ) -> Generator[Rollout, None, None]:
        """The rollouts of task rows, in the order in which they finish; failures are among them.

        They begin when the first is asked for. A slow reader slows them down; leaving the loop ends them.

        Args:
            rows: task rows; a rollout's `task` is the place of its row.
            num_repeats: rollouts of each row.
            options: those of `RolloutOptions`.

        Raises:
            InputError: rows or options can't be used; nothing was run.
            TransportError: the gym is out of reach, or broke off.
            GymError: the gym gave up, because rollout after rollout failed alike.
        """
        with EventLoopThread("rollouts") as loop:
            yield from loop.iterate(AsyncGym(self.address).rollouts(rows, num_repeats=num_repeats, **options))

    def update_policy(
        self,
        version: int | str,
        *,
        server: str = "policy_model",
        drop_in_flight: bool = False,
        reload_weights: bool = False,
    ) -> None:
        """Set the version of the policy that a model server, all processes of it, answers with from now on.

        Args:
            version: stamped on every call, and in the rows.
            server: the model server's name.
            drop_in_flight: give up calls that began with an earlier version.
            reload_weights: have the engine load its weights from the model's folder first.

        Raises:
            TransportError: the gym is out of reach.
            GymError: there is no such model server, or it refused.
        """
        with EventLoopThread("policy update") as loop:
            loop.run(
                AsyncGym(self.address).update_policy(
                    version, server=server, drop_in_flight=drop_in_flight, reload_weights=reload_weights
                )
            )


class AsyncGym(_Client):
    """A running gym, for event loops."""

    async def rollouts(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        num_repeats: int = 1,
        **options: Unpack[RolloutOptions],
    ) -> AsyncGenerator[Rollout, None]:
        """As `Gym.rollouts`. Close the iterator (`contextlib.aclosing`) where a loop may be left early."""
        url = self.address.url
        body = json.dumps({"rows": list(rows), "num_repeats": num_repeats, **options}).encode()
        is_whole = False
        with _errors_named(url):
            async with self._session() as session, session.post(url + _PATH, data=BytesIO(body)) as answer:
                if answer.status != HTTPStatus.OK:
                    raise refusal(answer.status, await answer.read(), url)
                async for line in _lines(answer.content):
                    rollout = read_line(line)
                    if rollout is None:
                        is_whole = (
                            True  # the body's end is read too: leaving before it would break the call off
                        )
                    else:
                        yield rollout
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
        update = {"version": version, "drop_in_flight": drop_in_flight, "reload_weights": reload_weights}
        async with self._session() as session:
            instances = await self._exchange(session, self.address.url, "GET", "/server_instances")
            url = _url_of(server, instances, self.address.url)
            await self._exchange(session, url, "POST", "/policy_version", json.dumps(update).encode())

    async def _exchange(
        self, session: aiohttp.ClientSession, url: str, method: str, path: str, body: bytes | None = None
    ) -> Any:
        """The JSON of a whole answer."""
        with _errors_named(url):
            async with session.request(method, url + path, data=body) as answer:
                content = await answer.read()
        if answer.status != HTTPStatus.OK:
            raise refusal(answer.status, content, url)
        return json.loads(content)

    def _session(self) -> aiohttp.ClientSession:
        """A client that carries the run's token. Only connecting is bounded in time."""
        import aiohttp

        headers = {"content-type": "application/json"}
        if self.address.token:
            headers[TOKEN_HEADER] = self.address.token
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        return aiohttp.ClientSession(headers=headers, timeout=timeout, read_bufsize=1 << 22)


@contextmanager
def _errors_named(url: str) -> Iterator[None]:
    """Turn the errors of aiohttp into those of the gym."""
    import aiohttp  # takes a tenth of a second, which importing this module is not to take

    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise _unreachable(url, error) from error
    except (aiohttp.ClientError, OSError) as error:
        raise broken_off(url, error) from error


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


async def _lines(content: Any) -> AsyncIterator[bytes]:
    """The lines of a body, however long they are."""
    begun: list[bytes] = []
    async for chunk in content.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*begun, end])
            begun.clear()
        begun.append(rest)


def _unreachable(url: str, error: Exception) -> TransportError:
    return TransportError(
        f"no gym answers at {url} ({error})",
        code="connect_refused",
        retryable=True,
        remedy="Start it with ng_run.",
        peer=url,
    )
