"""The exception for an error status of a peer. It subclasses aiohttp's, because environments catch that one.

The module is imported only where the exception is raised: importing aiohttp takes 0.1 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import ClientResponseError, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from nemo_gym.failures import Failure
from nemo_gym.transport import read_reply_failure

if TYPE_CHECKING:
    from nemo_gym.transport.server_client import ServerReply


class UpstreamError(ClientResponseError):
    """A peer replied with an error status; `response_content` holds the body, `failure` the root cause."""

    def __init__(self, reply: ServerReply) -> None:
        request = RequestInfo(URL(reply.url), reply.method, CIMultiDictProxy(CIMultiDict()), URL(reply.url))
        self.response_content = reply.body
        self.failure: Failure | None = read_reply_failure(reply)
        text = self.failure.message if self.failure else reply.body[:2000].decode(errors="replace")
        if self.failure and self.failure.place:
            text += f", raised at {self.failure.place}"
        super().__init__(request, (), status=reply.status, message=text)

    def __str__(self) -> str:
        """Return the root cause first, because test reports cut long lines at the end."""
        return f"{self.message} (HTTP {self.status} of {self.request_info.real_url})"
