"""The client for calls between servers, agents and trainers, which addresses servers by name.

It adds the session and the deadline of the current request to every call. Cookies also work, for code that passes
them from one reply to the next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

import orjson
from multidict import CIMultiDict
from pydantic import BaseModel, ConfigDict

from nemo_gym.clock import hex_id, monotonic
from nemo_gym.config.keys import DEFAULT_HOST
from nemo_gym.config.types import BaseServerConfig
from nemo_gym.failures import ConfigError, InputError, TransportError
from nemo_gym.json_objects import dump_json, parse_json
from nemo_gym.names import CALL_ROUTES, HEAD_SERVER, ROLLOUT_PATH_PREFIX, TLS_KEY, TOKEN_HEADER
from nemo_gym.names import DEFAULT_HEAD_SERVER_PORT as DEFAULT_HEAD_SERVER_PORT
from nemo_gym.tls import read_ca, uses_tls
from nemo_gym.transport import Call, Caller, Reply, Transport, call_once_blocking
from nemo_gym.transport.calls import Received, cookie_header
from nemo_gym.transport.context import (
    BUDGET_HEADER,
    CALL_HEADER,
    DURABLE_SESSION,
    INCARNATION_HEADER,
    SESSION_HEADER,
    VERIFYING,
    RequestContext,
    current_context,
)
from nemo_gym.transport.control import is_control_route
from nemo_gym.transport.directory import base_url
from nemo_gym.transport.ended_sessions import EndedSessions
from nemo_gym.transport.moving_caller import build_caller
from nemo_gym.transport.moving_directory import build_directory
from nemo_gym.transport.pools import transport_to

if TYPE_CHECKING:
    import aiohttp

__all__ = ["ServerClient", "ServerReply"]

HEAD_SERVER_KEY_NAME = HEAD_SERVER

_REPEATABLE_PATHS = CALL_ROUTES | {
    "/v1/models",
    "/seed_session",
    "/verify",
    "/close_session",
    "/v1/agent_sessions",
    "/v1/agent_sessions/close",
    "/aggregate_metrics",
}
"""Paths that are safe to repeat after a broken connection: model calls, sessions by id, and a pure verify."""
_OPENING = "/seed_session"
_IN_A_ROLLOUT = f"/{ROLLOUT_PATH_PREFIX}/"


class ServerReply(Received):
    """A complete reply with the interface of aiohttp's `ClientResponse`."""

    __slots__ = ("_cookies", "method", "url")

    def __init__(self, reply: Received, method: str, url: str) -> None:
        self.status, self.body, self._headers = reply.status, reply.body, reply._headers
        self.method = method
        self.url = url
        self._cookies: SimpleCookie | None = None

    @property
    def cookies(self) -> SimpleCookie:
        if self._cookies is None:
            self._cookies = SimpleCookie()
            for value in self.headers.getall("set-cookie", ()):
                self._cookies.load(value)
        return self._cookies

    @property
    def content(self) -> ServerReply:
        """aiohttp's stream reader, of which environments use `read` only."""
        return self

    async def read(self) -> bytes:
        return self.body

    async def text(self) -> str:
        return self.body.decode(errors="replace")

    async def json(self, **_: Any) -> Any:
        return parse_json(self.body)

    def raise_for_status(self) -> None:
        if not self.ok:
            from nemo_gym.transport.upstream_error import UpstreamError

            raise UpstreamError(self)

    def release(self) -> None:
        """Do nothing: the body has been received."""

    def close(self) -> None:
        """Do nothing: the body has been received."""

    async def __aenter__(self) -> ServerReply:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class ServerClient(BaseModel):
    """Calls servers by name. One client is enough for a process; its connections are pooled."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    head_server_config: BaseServerConfig
    global_config_dict: Any
    """The resolved global configuration, an OmegaConf `DictConfig` or a plain mapping."""

    @classmethod
    def connect(cls, config: Mapping[str, Any], *, transport: Transport, token: str | None) -> ServerClient:
        """Create a client over `transport` for the servers of `config`."""
        client = cls(head_server_config=_read_head_address(config), global_config_dict=config)
        client.__dict__["own_caller"] = build_caller(config, transport, token)
        return client

    @classmethod
    def load_head_server_config(cls) -> BaseServerConfig:
        from nemo_gym.config.current import get_global_config_dict

        return _read_head_address(get_global_config_dict())

    @classmethod
    def load_from_global_config(cls, head_server_config: BaseServerConfig | None = None) -> ServerClient:
        """Create a client from the configuration of a head server. Raises `ConfigError` if it is unreachable."""
        from omegaconf import OmegaConf

        from nemo_gym.config.current import read_run_token

        head = head_server_config or cls.load_head_server_config()
        tls = own_tls()
        url = base_url(head.host, head.port, is_tls=uses_tls(tls))
        try:
            token = read_run_token()
            call = Call("GET", "/global_config_dict_yaml", headers={TOKEN_HEADER: token} if token else {})
            reply = call_once_blocking(url, call, timeout_s=10, ca=read_ca(tls))
            if not reply.ok:
                raise ValueError(f"HTTP {reply.status}")
            text = reply.json()
        except (TransportError, ValueError) as error:
            raise ConfigError(
                f"the head server at {url} does not answer ({error})",
                code="head_unreachable",
                remedy="Start the servers with gym env start (ng_run), or set +head_server.host and +head_server.port.",
                peer=url,
            ) from error
        config = OmegaConf.create(text)
        return cls(head_server_config=head, global_config_dict=OmegaConf.merge(config, tls))

    def _build_server_base_url(self, server_config_dict: Mapping[str, Any]) -> str:
        """Return a server's root URL, for agent harnesses that make their own HTTP calls."""
        is_tls = uses_tls(self.global_config_dict)
        return base_url(server_config_dict["host"], server_config_dict["port"], is_tls=is_tls)

    @cached_property
    def own_caller(self) -> Caller:
        """The client's caller, created on first use."""
        from nemo_gym.config.current import read_run_token

        config = _plain(self.global_config_dict)
        return build_caller(config, transport_to(config), read_run_token())

    @cached_property
    def ended_sessions(self) -> EndedSessions:
        return EndedSessions(self.own_caller.directory)

    def caller(self) -> Caller:
        """Return the caller behind this client."""
        return self.own_caller

    def has_replicas(self, server_name: str) -> bool:
        """Return whether the server has more than one process."""
        directory = self.caller().directory
        return server_name in directory.names() and len(directory.replicas(server_name)) > 1

    async def post_everywhere(self, server_name: str, url_path: str, *, json: Any) -> list[ServerReply]:
        """Send a repeatable call to all processes of `server_name`, without a session."""
        urls = self.own_caller.directory.replicas(server_name)
        by_url = self.own_caller.narrow_to_urls(urls)
        calls = (
            by_url.call(url, "POST", url_path, body=_dump_body(json, None), repeatable=True) for url in urls
        )
        replies = await asyncio.gather(*calls)
        return [
            ServerReply(reply, "POST", f"{url}{url_path}") for url, reply in zip(urls, replies, strict=True)
        ]

    async def get(self, server_name: str, url_path: str, **options: Any) -> ServerReply:
        return await self.request("GET", server_name, url_path, **options)

    async def post(self, server_name: str, url_path: str, **options: Any) -> ServerReply:
        return await self.request("POST", server_name, url_path, **options)

    async def request(
        self,
        method: str,
        server_name: str,
        url_path: str,
        *,
        json: Any = None,
        data: bytes | str | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        cookies: Mapping[str, Any] | None = None,
        session: str | None = None,
        repeatable: bool | None = None,
        timeout: float | aiohttp.ClientTimeout | None = None,
        **ecosystem: Any,
    ) -> ServerReply:
        """Send one call to `server_name` and return the reply, whatever its status.

        `repeatable`: it may be sent again after a broken connection, by default as its path. `timeout`: in seconds.
        Raises `TransportError`, `DeadlineError`, `ConfigError`, `TimeoutError`; `TypeError` for an unknown option."""
        if ecosystem:
            _refuse_unknown(ecosystem)
        context = current_context.get()
        if context is not None and context.is_policy_acting and is_control_route(url_path):
            return ServerReply(_no_such_tool(url_path), method, f"{server_name}{url_path}")
        calls = context.calls if context is not None else None
        call = _new_call(method, url_path, json, data, params, headers, repeatable)
        session = _put_cookies(call, cookies, session) if cookies else session
        _put_own_headers(call, server_name, self.own_caller.token, session, context)
        if url_path in CALL_ROUTES:
            self.ended_sessions.tell(server_name, call, context)
        began = monotonic() if calls is not None else 0.0
        sending = self.own_caller.send(server_name, call, call.propagated)
        reply = await (sending if timeout is None else asyncio.wait_for(sending, _read_seconds(timeout)))
        if calls is not None:
            calls.append((server_name, _cut_rollout(url_path), round(monotonic() - began, 6)))
        if context is not None and (url_path == _OPENING or context.ledger is not None):
            _read_own_headers(reply, server_name, url_path, context)
        return ServerReply(reply, method, f"{server_name}{call.path}")


def _cut_rollout(path: str) -> str:
    """Return a path without the rollout that a harness's base URL names: its calls are counted by route."""
    if not path.startswith(_IN_A_ROLLOUT):
        return path
    return f"/{path.removeprefix(_IN_A_ROLLOUT).partition('/')[2]}"


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    if unknown := [name for name in options if not name.startswith("_")]:
        names = ", ".join(f"`{name}`" for name in unknown)
        raise TypeError(
            f"calls between servers have no option {names}; they take json, data, params, headers, cookies, session, "
            "repeatable and timeout"
        )


def _read_seconds(timeout: float | aiohttp.ClientTimeout) -> float | None:
    return timeout if isinstance(timeout, int | float) else timeout.total


def _read_head_address(config: Mapping[str, Any]) -> BaseServerConfig:
    """Return the address of the head server."""
    head = config.get(HEAD_SERVER_KEY_NAME) or {}
    return BaseServerConfig(
        host=head.get("host") or DEFAULT_HOST, port=head.get("port") or DEFAULT_HEAD_SERVER_PORT
    )


def _new_call(
    method: str,
    url_path: str,
    json: Any,
    data: bytes | str | None,
    params: Mapping[str, Any] | None,
    headers: Mapping[str, str] | None,
    repeatable: bool | None,
) -> Call:
    path = f"{url_path}?{urlencode(params)}" if params else url_path
    call_headers = {name.lower(): str(value) for name, value in headers.items()} if headers else {}
    body = _dump_body(json, data)
    if body is not None:
        call_headers.setdefault("content-type", "application/json")
    if repeatable is None:
        repeatable = url_path in _REPEATABLE_PATHS or method == "GET"
    return Call(method, path, body, call_headers, repeatable=repeatable)


def _put_cookies(call: Call, cookies: Mapping[str, Any], session: str | None) -> str | None:
    """Give a call cookies, and return its session: by default the one in them."""
    call.headers["cookie"] = cookie_header(cookies)
    return session or read_cookies_session(cookies)


def _put_own_headers(
    call: Call, server: str, token: str | None, session: str | None, context: RequestContext | None
) -> None:
    """Give a call the run's token, and the session, the deadline and the incarnation of the current request."""
    if token is not None:
        call.headers[TOKEN_HEADER] = token
    if context is not None:
        call.propagated = context.deadline
        if context.ledger is not None:
            call.headers[BUDGET_HEADER] = context.ledger.to_header()
        incarnation = context.incarnations.get(server)
        if incarnation is not None and call.path == _OPENING:  # a second session at the same server
            session = session or f"{context.session}~{hex_id()[:8]}"
        elif incarnation is not None and session in (None, context.session):
            call.headers[INCARNATION_HEADER] = incarnation
        session = session or context.session
    if session:
        call.headers[SESSION_HEADER] = call.session = session
        if call.path in CALL_ROUTES and DURABLE_SESSION.match(session):
            is_verifying = context is not None and context.is_verifying
            call.headers[CALL_HEADER] = VERIFYING if is_verifying else hex_id()


def _read_own_headers(reply: Received, server: str, path: str, context: RequestContext) -> None:
    """Note the incarnation that opened a session, and what a call has spent."""
    if path == _OPENING and INCARNATION_HEADER in reply.headers:
        context.incarnations[server] = reply.headers[INCARNATION_HEADER]
    if context.ledger is not None:
        context.ledger.note_headers(reply.headers)


def _no_such_tool(url_path: str) -> Reply:
    """Return the answer to a path that may be a tool name which the model made up."""
    failure = InputError(
        f"there is no tool named {url_path.lstrip('/')!r}",
        code="reserved_route",
        remedy="The episode driver opens, verifies and closes sessions, outside of `responses`.",
        status=404,
    ).failure
    headers = CIMultiDict({"content-type": "application/json"})
    return Reply(failure.http_status, headers, orjson.dumps(failure.to_wire()))


def read_cookies_session(cookies: Mapping[str, Any] | None) -> str | None:
    """Return the session in the cookies of an earlier reply, which selects the replica."""
    for name, value in (cookies or {}).items():
        if name.startswith("ng_session_"):
            return str(getattr(value, "value", value)).rpartition(".")[0] or None
    return None


def _dump_body(json: Any, data: bytes | str | None) -> bytes | None:
    if data is not None:
        return data.encode() if isinstance(data, str) else data
    if json is None:
        return None
    if isinstance(json, BaseModel):
        return json.__pydantic_serializer__.to_json(json, by_alias=True, exclude_unset=True)
    return dump_json(json, default=_dump_model, option=orjson.OPT_NON_STR_KEYS)


def _dump_model(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _plain(config: Any) -> Mapping[str, Any]:
    """Convert a DictConfig to a plain mapping."""
    if isinstance(config, dict):
        return config
    from omegaconf import OmegaConf

    return cast(Mapping[str, Any], OmegaConf.to_container(config, resolve=True))


def own_tls() -> dict[str, Any]:
    """Return the TLS files of this process's gym under their key; empty without TLS."""
    from nemo_gym.config.current import read_run_value

    tls = read_run_value(TLS_KEY)
    return {TLS_KEY: dict(tls)} if tls else {}


async def request(method: str, url: str, **options: Any) -> aiohttp.ClientResponse:
    """Call any URL once through the process's pooled client, with aiohttp's options and response.

    Options of the ecosystem with a leading underscore have no effect: they limit its retries and choose its log lines.
    """
    options = {name: value for name, value in options.items() if not name.startswith("_")}
    if "json" in options:
        options["data"] = _dump_body(options.pop("json"), None)
        options["headers"] = {"Content-Type": "application/json", **(options.get("headers") or {})}
    return await transport_to(own_tls()).session().request(method, url, **options)


def get_global_aiohttp_client(*_: Any, **__: Any) -> aiohttp.ClientSession:
    """Return the process's pooled aiohttp client."""
    return transport_to(own_tls()).session()


async def raise_for_status(response: Any) -> None:
    """Raise for an error status; the exception has the body as `.response_content`."""
    if response.ok:
        return
    if isinstance(response, ServerReply):
        response.raise_for_status()
    from aiohttp import ClientResponseError

    content = await response.content.read()
    try:
        response.raise_for_status()
    except ClientResponseError as error:
        error.response_content = content  # type: ignore[attr-defined]
        raise


async def get_response_json(response: Any) -> Any:
    """Return the parsed JSON body."""
    return parse_json(await response.read())


def get_server_url(server_name: str) -> str:
    """Return the base URL of a server of this process's gym."""
    from nemo_gym.config.current import get_global_config_dict

    return build_directory(_plain(get_global_config_dict())).choose(server_name, None)


def is_nemo_gym_fastapi_entrypoint(file: str) -> bool:
    """Return False: every replica runs the file itself, so no module-level app is ever imported."""
    return False
