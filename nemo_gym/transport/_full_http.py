"""The aiohttp client: `https://` URLs, and calls that use aiohttp's own options.

Importing aiohttp takes 0.1 s, so `nemo_gym/transport/http.py` imports this module on first use.
"""

from __future__ import annotations

import socket
from typing import Any

import aiohttp

from nemo_gym.tls import context_trusting_also
from nemo_gym.transport._errors import DISCONNECTED, MALFORMED_ANSWER, call_failed
from nemo_gym.transport._plain_http import CONNECT_TIMEOUT_S, IDLE_S, build_connect_error, probe_when_silent
from nemo_gym.transport.calls import Call, Reply


class FullHttp:
    """A `Transport` for any URL, on one pooled aiohttp session."""

    def __init__(self, ca: str | None = None) -> None:
        """`ca`: a file of certificates that are trusted beside those of this machine."""
        self._tls = True if ca is None else context_trusting_also(ca)
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """The pooled client. It is created on first use inside the running event loop."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=IDLE_S, socket_factory=_open_probed_socket, ssl=self._tls
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
            )
        return self._session

    async def send(self, base_url: str, call: Call) -> Reply:
        try:
            async with self.session().request(
                call.method, base_url + call.path, data=call.body, headers=call.headers, allow_redirects=False
            ) as answer:
                return Reply(answer.status, answer.headers, await answer.read())
        except aiohttp.InvalidURL as error:
            raise call_failed("invalid_url", base_url, error) from error
        except aiohttp.ClientConnectorDNSError as error:
            raise call_failed("name_unresolved", base_url, error) from error
        except (aiohttp.ConnectionTimeoutError, aiohttp.ServerTimeoutError) as error:
            raise call_failed("connect_timeout", base_url, error) from error
        except aiohttp.ClientConnectorError as error:
            raise build_connect_error(base_url, error.os_error) from error
        except aiohttp.ClientResponseError as error:
            raise call_failed(MALFORMED_ANSWER, base_url, error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise call_failed(DISCONNECTED, base_url, error) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _open_probed_socket(address_info: Any) -> socket.socket:
    family, kind, protocol, _, _ = address_info
    connection = socket.socket(family=family, type=kind, proto=protocol)
    probe_when_silent(connection)
    return connection
