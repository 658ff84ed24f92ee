"""The client that servers, agents and trainers call each other with: server names instead of addresses.

Session and deadline of the request being handled travel along by themselves; cookies still work for code that
passes them from one answer to the next call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import cached_property
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlencode

import orjson
from multidict import CIMultiDict
from pydantic import BaseModel, ConfigDict

from nemo_gym import clock as sources
from nemo_gym.config import bootstrap
from nemo_gym.config.types import BaseServerConfig
from nemo_gym.failures import ConfigError, InputError, TransportError
from nemo_gym.names import DEFAULT_HEAD_SERVER_PORT as DEFAULT_HEAD_SERVER_PORT
from nemo_gym.names import HEAD_SERVER, TOKEN_HEADER
from nemo_gym.transport import Call, Caller, Directory, HttpTransport, Reply, Transport, call_once_blocking
from nemo_gym.transport.calls import cookie_header
from nemo_gym.transport.circuit_breaker import breakers_of
from nemo_gym.transport.context import (
    BOOT_HEADER,
    SESSION_HEADER,
    RequestContext,
    current_context,
)
from nemo_gym.transport.control import is_control_route
from nemo_gym.transport.directory import base_url

if TYPE_CHECKING:
    import aiohttp

HEAD_SERVER_KEY_NAME = HEAD_SERVER

_REPEATABLE_PATHS = frozenset(
    {
        "/v1/responses",
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/models",
        "/seed_session",
        "/verify",
        "/close_session",
        "/aggregate_metrics",
    }
)
"""Paths that may be sent again after the connection broke: model calls, sessions by id, and a pure verify."""


class _Content:
    """The part of aiohttp's stream reader that environments use."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self) -> bytes:
        return self._body


class ServerReply:
    """A peer's answer with the interface of aiohttp's `ClientResponse`; its body has arrived already."""

    __slots__ = ("_cookies", "method", "reply", "url")

    def __init__(self, reply: Reply, method: str, url: str) -> None:
        self.reply = reply
        self.method = method
        self.url = url
        self._cookies: SimpleCookie | None = None

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def ok(self) -> bool:
        return self.reply.ok

    @property
    def body(self) -> bytes:
        return self.reply.body

    @property
    def headers(self) -> Mapping[str, str]:
        return self.reply.headers

    @property
    def cookies(self) -> SimpleCookie:
        if self._cookies is None:
            self._cookies = self.reply.cookies()
        return self._cookies

    @property
    def content(self) -> _Content:
        return _Content(self.reply.body)

    async def read(self) -> bytes:
        return self.reply.body

    async def text(self) -> str:
        return self.reply.body.decode(errors="replace")

    async def json(self, **_: Any) -> Any:
        return self.reply.json()

    def raise_for_status(self) -> None:
        if not self.ok:
            from nemo_gym.transport._upstream_error import UpstreamError

            raise UpstreamError(self)

    def release(self) -> None:
        """Nothing to release: the body has arrived."""

    def close(self) -> None:
        """Nothing to close: the body has arrived."""

    async def __aenter__(self) -> ServerReply:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Link(NamedTuple):
    """Who carries a client's calls, and the run's token that opens control routes."""

    caller: Caller
    token: str | None


class ServerClient(BaseModel):
    """Calls servers by name. One client serves a whole process; its connections are pooled."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    head_server_config: BaseServerConfig
    global_config_dict: Any
    """The resolved global configuration, an OmegaConf `DictConfig` or a plain mapping."""

    @classmethod
    def connect(cls, config: Mapping[str, Any], *, transport: Transport, token: str | None) -> ServerClient:
        """A client over `transport` for the servers of `config`."""
        head = config.get(HEAD_SERVER_KEY_NAME) or {}
        client = cls(
            head_server_config=BaseServerConfig(
                host=head.get("host") or "127.0.0.1", port=head.get("port") or DEFAULT_HEAD_SERVER_PORT
            ),
            global_config_dict=config,
        )
        client.__dict__["link"] = Link(Caller(Directory.of_config(config), transport), token)
        return client

    @classmethod
    def load_head_server_config(cls) -> BaseServerConfig:
        from nemo_gym.config.current import get_global_config_dict

        head = get_global_config_dict().get(HEAD_SERVER_KEY_NAME) or {}
        return BaseServerConfig(
            host=head.get("host") or "127.0.0.1", port=head.get("port") or DEFAULT_HEAD_SERVER_PORT
        )

    @classmethod
    def load_from_global_config(cls, head_server_config: BaseServerConfig | None = None) -> ServerClient:
        """A client for the gym whose head server listens there. Raises `ConfigError` when none answers."""
        from omegaconf import OmegaConf

        head = head_server_config or cls.load_head_server_config()
        url = base_url(head.host, head.port)
        try:
            reply = call_once_blocking(url, Call("GET", "/global_config_dict_yaml"), timeout_s=10)
            if not reply.ok:
                raise ValueError(f"HTTP {reply.status}")
            text = reply.json()
        except (TransportError, ValueError) as error:
            raise ConfigError(
                f"no head server answers at {url} ({error})",
                code="head_unreachable",
                remedy="Start the servers with ng_run, or give +head_server.host and +head_server.port.",
                peer=url,
            ) from error
        return cls(head_server_config=head, global_config_dict=OmegaConf.create(text))

    def _build_server_base_url(self, server_config_dict: Mapping[str, Any]) -> str:
        """The root URL of the server with this block; agents hand it to harnesses that speak HTTP themselves."""
        return base_url(server_config_dict["host"], server_config_dict["port"])

    @cached_property
    def link(self) -> Link:
        """What the client calls through, made on first use."""
        given = bootstrap.current()
        caller = Caller(Directory.of_config(_plain(self.global_config_dict)), process_transport())
        return Link(caller, given.run_token if given else None)

    def caller(self) -> Caller:
        """The caller behind this client."""
        return self.link.caller

    def has_replicas(self, server_name: str) -> bool:
        """Whether more than one process serves under the name."""
        directory = self.caller().directory
        return server_name in directory.names() and len(directory.replicas(server_name)) > 1

    async def post_everywhere(self, server_name: str, url_path: str, *, json: Any) -> list[ServerReply]:
        """The answers of all processes of `server_name` to a call that may be sent again. It is of no session."""
        caller, token = self.link
        urls = caller.directory.replicas(server_name)
        headers = {"content-type": "application/json"} | ({TOKEN_HEADER: token} if token is not None else {})
        by_url = Caller(Directory({url: [url] for url in urls}), caller.transport)
        calls = (
            by_url.call(
                url, "POST", url_path, body=_body_of(json, None), headers=dict(headers), repeatable=True
            )
            for url in urls
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
        **_: Any,
    ) -> ServerReply:
        """One call to `server_name`; the answer is returned whatever its status.

        While the policy acts no control route can be called: its path is then a name that a model made up, and is
        answered as a tool that does not exist.

        `json` may be a pydantic model (dumped without unset fields) or plain data; `data` is sent as it is.
        `repeatable` says that the call may be sent again after a broken connection; by default it may when the
        method is GET or the path is one whose repetition is harmless.
        """
        caller, token = self.link
        context = current_context.get()
        if context is not None and context.acting and is_control_route(url_path):
            return ServerReply(_no_such_tool(url_path), method, f"{server_name}{url_path}")
        call_headers = {name.lower(): value for name, value in headers.items()} if headers else {}
        body = _body_of(json, data)
        if body is not None and "content-type" not in call_headers:
            call_headers["content-type"] = "application/json"
        if cookies:
            call_headers["cookie"] = cookie_header(cookies)
            session = session or session_of_cookies(cookies)
        if token is not None:
            call_headers[TOKEN_HEADER] = token
        opens = url_path == "/seed_session"
        deadline = None
        if context is not None:
            session = session or _ambient_session(context, server_name, opens)
            boot = context.boots.get(server_name)
            if boot is not None and not opens and session == context.session:
                call_headers[BOOT_HEADER] = boot
            deadline = context.deadline
        if session:
            call_headers[SESSION_HEADER] = session
        path = f"{url_path}?{urlencode(params)}" if params else url_path
        if repeatable is None:
            repeatable = url_path in _REPEATABLE_PATHS or method == "GET"
        reply = await caller.call(
            server_name,
            method,
            path,
            body=body,
            headers=call_headers,
            session=session,
            deadline=deadline,
            propagated=deadline,
            repeatable=repeatable,
        )
        if opens and context is not None:
            boot = reply.headers.get(BOOT_HEADER)
            if boot is not None:
                context.boots[server_name] = boot
        return ServerReply(reply, method, f"{server_name}{path}")


def _ambient_session(context: RequestContext, server: str, opens: bool) -> str:
    """The session of the request being handled; a second session opened at a server gets a name of its own."""
    if opens and server in context.boots:
        return f"{context.session}~{sources.hex_id()[:8]}"
    return context.session


def _no_such_tool(url_path: str) -> Reply:
    failure = InputError(
        f"there is no tool named {url_path.lstrip('/')!r}",
        code="reserved_route",
        remedy="Sessions are opened, verified and closed outside of `responses`.",
        status=404,
    ).failure
    headers = CIMultiDict({"content-type": "application/json"})
    return Reply(failure.http_status, headers, orjson.dumps(failure.to_wire()))


def session_of_cookies(cookies: Mapping[str, Any] | None) -> str | None:
    """The session in the cookies of an earlier answer, for choosing the replica that holds it."""
    for name, value in (cookies or {}).items():
        if name.startswith("ng_session_"):
            return str(getattr(value, "value", value)).rpartition(".")[0] or None
    return None


def _body_of(json: Any, data: bytes | str | None) -> bytes | None:
    if data is not None:
        return data.encode() if isinstance(data, str) else data
    if json is None:
        return None
    if isinstance(json, BaseModel):
        return json.__pydantic_serializer__.to_json(json, by_alias=True, exclude_unset=True)
    return orjson.dumps(json, default=_dump_model, option=orjson.OPT_NON_STR_KEYS)


def _dump_model(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _plain(config: Any) -> Mapping[str, Any]:
    """A plain mapping from a DictConfig; a mapping stays what it is."""
    if isinstance(config, dict):
        return config
    from omegaconf import OmegaConf

    return cast(Mapping[str, Any], OmegaConf.to_container(config, resolve=True))


_transports: dict[int, HttpTransport] = {}


def process_transport() -> HttpTransport:
    """The pooled HTTP transport of the running event loop."""
    loop = asyncio.get_running_loop()
    transport = _transports.get(id(loop))
    if transport is None:
        _transports.clear()  # a loop of this process has ended; its connections ended with it
        transport = _transports[id(loop)] = HttpTransport()
    return transport


def process_outages() -> list[dict[str, Any]]:
    """The endpoints that calls of the running event loop can't reach."""
    transport = _transports.get(id(asyncio.get_running_loop()))
    return breakers_of(transport).to_wire(time.monotonic()) if transport is not None else []


def process_refusals() -> int:
    """How many calls of the running event loop were turned away because an endpoint had too many."""
    transport = _transports.get(id(asyncio.get_running_loop()))
    return breakers_of(transport).refusals if transport is not None else 0


async def request(method: str, url: str, **options: Any) -> aiohttp.ClientResponse:
    """A call to any URL through the process's pooled client, with aiohttp's own options and answer."""
    if "json" in options:
        options["data"] = _body_of(options.pop("json"), None)
        options["headers"] = {"Content-Type": "application/json", **(options.get("headers") or {})}
    return await process_transport().session().request(method, url, **options)


def get_global_aiohttp_client(*_: Any, **__: Any) -> aiohttp.ClientSession:
    """The process's pooled aiohttp client."""
    return process_transport().session()


async def raise_for_status(response: Any) -> None:
    """Raise when the answer is an error; the body is at hand as `.response_content`."""
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
    """The body as JSON."""
    return orjson.loads(await response.read())


def get_server_url(server_name: str) -> str:
    """The base URL of a server of this process's gym."""
    from nemo_gym.config.current import get_global_config_dict

    return Directory.of_config(_plain(get_global_config_dict())).choose(server_name, None)


def is_nemo_gym_fastapi_entrypoint(file: str) -> bool:
    """False: replicas are processes that each run the file itself, so no module-level app is ever asked for."""
    return False
