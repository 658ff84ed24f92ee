"""Clients of a running gym: `Gym` for synchronous code, `AsyncGym` for event loops."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from nemo_gym.client._blocking_session import BlockingRolloutSession
from nemo_gym.client._connecting import GymAddress, find_address, locate_gym
from nemo_gym.client._open_rollout import (
    ROLLOUT_RECORDS,
    AsyncOpenRollout,
    OpenRollout,
    RolloutLimits,
)
from nemo_gym.client._rollout import Rollout, build_broken_stream_error, read_line, refusal
from nemo_gym.client._session import AsyncRolloutSession, RolloutSessionOptions
from nemo_gym.client._session_connection import EngineTreatment
from nemo_gym.failures import ConfigError, TransportError
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.processes.event_loop_thread import EventLoopThread, run_blocking
from nemo_gym.rows.forms import AnyRow

if TYPE_CHECKING:
    import aiohttp

    from nemo_gym.client._forking import ForkOptions

CONNECT_TIMEOUT_S = 10.0
_PATH = "/rollouts"


class RolloutOptions(TypedDict, total=False):
    """The options of a request for rollouts, named as the keys of `ng_collect_rollouts`."""

    num_samples_in_parallel: int
    """Rollouts in flight; default 64."""
    max_attempts: int
    """Attempts at a rollout whose failures are retryable; default 3."""
    rollout_timeout_s: float | None
    """Time limit of an attempt in seconds, None for no limit; default 1,800."""
    stop_after_identical_failures: int
    """Consecutive rollouts with the same failure that stop the request, 0 for no limit; default 20."""
    num_repeats_add_seed: bool
    """Use the number of each repeat as its sampling seed."""
    agent_name: str
    """The agent of rows without one."""
    responses_create_params: Mapping[str, Any]
    """Merged into those of every row."""


@dataclass(frozen=True, slots=True)
class _Client:
    address: GymAddress

    @classmethod
    def connect(
        cls,
        folder: Path | None = None,
        *,
        name: str | None = None,
        url: str | None = None,
        token: str | None = None,
        ca: str | Path | None = None,
    ) -> Self:
        """Return the gym whose head server listens at `url`, or else the one started in `folder`.

        Without `token`, that of a gym that this process started, or that was started in the working folder, is used.
        `name` is the discovery name of the gym, needed only if several gyms run in the folder. `ca` is the file of
        certificates to trust for an `https` URL, by default as for the token, or those that this machine trusts.

        Raises `ConfigError` if no gym was started.
        """
        if url is None:
            return cls(find_address(folder, name))
        trusted = str(Path(ca).expanduser().absolute()) if ca is not None else None
        return cls(GymAddress(url, token, trusted) if token is not None else locate_gym(url, trusted))


class Gym(_Client):
    """A synchronous client of a running gym. It runs the calls of `AsyncGym` in an event loop of its own."""

    def rollouts(
        self,
        rows: Iterable[AnyRow],
        *,
        num_repeats: int = 1,
        **options: Unpack[RolloutOptions],
    ) -> Generator[Rollout, None, None]:
        """Yield the rollouts of task rows in the order in which they finish, including failures.

        They start when the first is requested. A slow reader slows them down; leaving the loop cancels them.

        Args:
            rows: task rows; a rollout's `task` is the index of its row.
            num_repeats: rollouts of each row.
            options: those of `RolloutOptions`.

        Raises:
            InputError: rows or options are invalid; nothing was run.
            TransportError: the gym is unreachable, or the stream ended early.
            GymError: the gym stopped, because consecutive rollouts failed in the same way.
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
    ) -> dict[str, Any]:
        """Set the policy version of a model server, in all of its processes.

        Returns the `version`, the `previous` one, and the number of calls that were `dropped`.

        Args:
            version: recorded in every call and in the rows.
            server: the model server's name.
            drop_in_flight: cancel calls that started with an earlier version.
            reload_weights: have the engine load its weights from the model's folder first.

        Raises:
            TransportError: the gym is unreachable.
            GymError: there is no such model server, or it refused the update.
        """
        updating = AsyncGym(self.address).update_policy(
            version, server=server, drop_in_flight=drop_in_flight, reload_weights=reload_weights
        )
        return run_blocking("policy update", updating)

    @contextmanager
    def rollout(
        self, rollout_id: str | None = None, *, server: str = "policy_model", **terms: Unpack[RolloutLimits]
    ) -> Iterator[OpenRollout]:
        """Open a rollout for an agent that makes its own calls, and seal it at the end of the block.

        The agent gets `base_url` as the base URL of its model, and `key` as its API key.

        Args:
            rollout_id: the name of the rollout; a new one by default.
            server: the model server's name.
            terms: those of `RolloutLimits`.

        Raises:
            TransportError: the gym is unreachable.
            GymError: there is no such model server, or the rollout is open with other options.
        """
        opening = AsyncGym(self.address)._open_rollout(server, rollout_id, terms)
        rollout = OpenRollout(run_blocking("rollout", opening))
        try:
            yield rollout
        finally:
            rollout.seal()

    def fork(
        self, rows: str | Path, *, turn: int, n: int = 1, **options: Unpack[ForkOptions]
    ) -> list[Rollout]:
        """Return new attempts that share the first `turn` model calls of recorded ones, including failures.

        The run may be going on still. `gym fork --dry-run` tells the cost.

        Args:
            rows: the file of scored rows of a run whose attempts are kept (`keep_attempts=all`).
            turn: the shared calls; negative ones count from the end.
            n: forks of each recorded rollout.
            options: those of `ForkOptions`.

        Raises:
            ConfigError: there is no such record or turn, or the gym is not the one that made it; nothing was run.
            GymError: the forks were stopped, because consecutive ones failed in the same way.
        """
        return run_blocking("forks", AsyncGym(self.address).fork(rows, turn=turn, n=n, **options))

    @contextmanager
    def session(
        self,
        *,
        state: Mapping[str, Any] | None = None,
        attach: str | None = None,
        **options: Unpack[RolloutSessionOptions],
    ) -> Iterator[BlockingRolloutSession]:
        """Open a session for a trainer that gives tasks and takes groups while rollouts run. It ends with the block.

        Args:
            state: that of an earlier session (`session.state()`), from which this one goes on.
            attach: the `id` of a session that is open, which is used instead of a new one.
            options: those of `RolloutSessionOptions`.

        Raises:
            InputError: options or state are invalid.
            TransportError: the gym is unreachable.
        """
        with EventLoopThread("rollout session") as loop:
            opened = AsyncGym(self.address).session(state=state, attach=attach, **options)
            session = loop.run(opened.__aenter__())
            try:
                yield BlockingRolloutSession(loop, session)
            finally:
                loop.run(opened.__aexit__(None, None, None))


class AsyncGym(_Client):
    """A client of a running gym for event loops."""

    async def fork(
        self, rows: str | Path, *, turn: int, n: int = 1, **options: Unpack[ForkOptions]
    ) -> list[Rollout]:
        """Like `Gym.fork`."""
        from nemo_gym.client._forking import fork_stored  # most clients fork nothing

        return await fork_stored(self.address, Path(rows), turn, n, options)

    @asynccontextmanager
    async def session(
        self,
        *,
        state: Mapping[str, Any] | None = None,
        attach: str | None = None,
        **options: Unpack[RolloutSessionOptions],
    ) -> AsyncIterator[AsyncRolloutSession]:
        """Like `Gym.session`."""
        session = AsyncRolloutSession(self, options)
        try:
            yield await (session.attach(attach) if attach is not None else session.open(state))
        finally:
            await session.close()

    @asynccontextmanager
    async def rollout(
        self, rollout_id: str | None = None, *, server: str = "policy_model", **terms: Unpack[RolloutLimits]
    ) -> AsyncIterator[AsyncOpenRollout]:
        """Like `Gym.rollout`."""
        opened = await self._open_rollout(server, rollout_id, terms)
        try:
            yield opened
        finally:
            await opened.seal()

    async def _open_rollout(
        self, server: str, rollout_id: str | None, terms: RolloutLimits
    ) -> AsyncOpenRollout:
        async def ask(method: str, path: str, body: Any = None) -> Any:
            content = json.dumps(body).encode() if body is not None else None
            async with self._session() as session:
                return await self._exchange(session, url, method, path, content)

        async with self._session() as session:
            url = await self._find_url(session, server)
        answer = await ask("POST", ROLLOUT_RECORDS, {"rollout_id": rollout_id, **terms})
        return AsyncOpenRollout(answer["rollout_id"], answer["key"], url + answer["base_url_path"], ask)

    async def rollouts(
        self,
        rows: Iterable[AnyRow],
        *,
        num_repeats: int = 1,
        **options: Unpack[RolloutOptions],
    ) -> AsyncGenerator[Rollout, None]:
        """Like `Gym.rollouts`. Close the iterator (`contextlib.aclosing`) if the loop may be left early."""
        url = self.address.url
        body = json.dumps({"rows": list(rows), "num_repeats": num_repeats, **options}).encode()
        is_complete = False
        with errors_named(url):
            async with self._session() as session, session.post(url + _PATH, data=BytesIO(body)) as answer:
                if answer.status != HTTPStatus.OK:
                    raise refusal(answer.status, await answer.read(), url)
                async for line in split_lines(answer.content):
                    rollout = read_line(line)
                    if rollout is None:
                        is_complete = True  # read on to the end of the body: leaving would abort the call
                    else:
                        yield rollout
        if not is_complete:
            raise build_broken_stream_error(url)

    async def update_policy(
        self,
        version: int | str,
        *,
        server: str = "policy_model",
        drop_in_flight: bool = False,
        reload_weights: bool = False,
    ) -> dict[str, Any]:
        """Like `Gym.update_policy`."""
        update = {"version": version, "drop_in_flight": drop_in_flight, "reload_weights": reload_weights}
        return await self._tell(server, "/policy_version", update)

    @asynccontextmanager
    async def _paused(self, server: str, engine: EngineTreatment) -> AsyncIterator[None]:
        """Pause a model server and its engines in the block. Raises the errors of `update_policy`."""
        if engine == "none":
            yield
            return
        try:
            await self._tell(server, "/ng-pause", {"mode": engine})
            yield
        finally:
            await self._tell(server, "/ng-resume", {})

    async def _tell(self, server: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post to a control route of a model server."""
        async with self._session() as session:
            url = await self._find_url(session, server)
            told: dict[str, Any] = await self._exchange(session, url, "POST", path, json.dumps(body).encode())
        return told

    async def _find_url(self, session: aiohttp.ClientSession, server: str) -> str:
        """Return the URL of a model server, or of its first process."""
        gym = self.address.url
        instances = await self._exchange(session, gym, "GET", "/server_instances")
        urls: dict[str, str] = {
            each["name"]: each["url"] for each in instances if each["server_type"] == "responses_api_models"
        }
        if server not in urls:
            raise ConfigError(
                f"the gym at {gym} has no model server named `{server}`",
                code="unknown_server",
                remedy=f"Its model servers are: {', '.join(urls) or 'none'}.",
            )
        return urls[server]

    async def _exchange(
        self, session: aiohttp.ClientSession, url: str, method: str, path: str, body: bytes | None = None
    ) -> Any:
        """Return the JSON of an answer."""
        with errors_named(url):
            async with session.request(method, url + path, data=body) as answer:
                content = await answer.read()
        if answer.status != HTTPStatus.OK:
            raise refusal(answer.status, content, url)
        return json.loads(content)

    def _session(self) -> aiohttp.ClientSession:
        """Return a session with the run's token. Only connecting has a timeout. Raises `ConfigError` for `ca`."""
        import aiohttp

        from nemo_gym.tls import context_trusting

        headers = {"content-type": "application/json"}
        if self.address.token:
            headers[TOKEN_HEADER] = self.address.token
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        connector = aiohttp.TCPConnector(ssl=context_trusting(self.address.ca) or True)
        return aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=timeout, read_bufsize=1 << 22
        )


@contextmanager
def errors_named(url: str) -> Iterator[None]:
    """Convert the errors of aiohttp into `TransportError`."""
    import aiohttp  # imported here because it takes a tenth of a second

    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise TransportError(
            f"the certificate of the gym at {url} is refused ({error.certificate_error})",
            code="untrusted",
            remedy="Pass ca=FILE, the `tls.ca` of the gym, and call it by a name in its certificate.",
            peer=url,
        ) from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise TransportError(
            f"no gym answers at {url} ({error})",
            code="connect_refused",
            retryable=True,
            remedy="Start it with gym env start (ng_run).",
            peer=url,
        ) from error
    except (aiohttp.ClientError, OSError) as error:
        raise build_broken_stream_error(url, error) from error


async def split_lines(content: Any) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a body, without a limit on their length."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join([*parts, end])
            parts.clear()
        parts.append(rest)
