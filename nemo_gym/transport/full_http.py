"""HTTP with what the lean client leaves out, by aiohttp: `https://`, and calls with aiohttp's own options.

Importing aiohttp takes a tenth of a second, so `nemo_gym/transport/http.py` imports this module when it is needed.
"""

from __future__ import annotations

import socket
from typing import Any

import aiohttp

from nemo_gym.transport.calls import Call, Reply
from nemo_gym.transport.plain_http import (
    CONNECT_TIMEOUT_S,
    IDLE_S,
    ConnectTimeout,
    InvalidCall,
    NotConnected,
    probe_when_silent,
)


class FullHttp:
    """Sends calls as `PlainHttp` does, with its errors."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The pooled client, made on first use inside the running event loop."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=IDLE_S, socket_factory=_probed_socket
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
            )
        return self._session

    async def send(self, base_url: str, call: Call) -> Reply:
        """Raises `InvalidCall`, `NotConnected` or `OSError`."""
        try:
            async with self.session().request(
                call.method, base_url + call.path, data=call.body, headers=call.headers, allow_redirects=False
            ) as answer:
                return Reply(answer.status, answer.headers, await answer.read())
        except aiohttp.InvalidURL as error:
            raise InvalidCall(str(error)) from error
        except aiohttp.ClientConnectorDNSError as error:
            raise socket.gaierror(str(error)) from error
        except (aiohttp.ConnectionTimeoutError, aiohttp.ServerTimeoutError) as error:
            raise ConnectTimeout(str(error)) from error
        except aiohttp.ClientConnectorError as error:
            raise NotConnected(error.os_error) from error
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _probed_socket(address_info: Any) -> socket.socket:
    family, kind, protocol, _, _ = address_info
    connection = socket.socket(family=family, type=kind, proto=protocol)
    probe_when_silent(connection)
    return connection
