"""Access to the viewer: the token in the printed address, and the cookie that replaces it.

An address with a token ends up in histories and screenshots. The first request exchanges it for a cookie by a redirect,
and the token of a viewer ends with its process.
"""

from __future__ import annotations

import hmac
import re
import secrets
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nemo_gym.serving.browser_requests import BrowserCheck, BrowserRefusal

TOKEN_BYTES = 24
_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "worker", "style", "font", "connect")),
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class GuardedApp:
    """Answers only requests of this machine's pages that have the token or its cookie.

    All of them read, except POST requests of the viewer's own page to the paths that `changing` matches.
    """

    def __init__(self, app: ASGIApp, changing: str = r"(?!)") -> None:
        """`changing`: a pattern of whole paths; by default none."""
        self._changing = re.compile(changing)
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self._app = app
        self._check = BrowserCheck()
        self._secret = secrets.token_urlsafe(TOKEN_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"a viewer has no {scope['type']}")
        refusal = self._refuse(scope)
        await (refusal or self._app)(scope, receive, _add_headers(send))

    def _refuse(self, scope: Scope) -> Response | None:
        """Return the answer to a request that does not reach the app."""
        headers = Headers(scope=scope)
        try:
            self._check.check(dict(scope["headers"]))
        except BrowserRefusal as refused:
            return PlainTextResponse(str(refused), refused.failure.http_status)
        if scope["method"] not in ("GET", "HEAD"):
            if scope["method"] != "POST" or not self._changing.fullmatch(scope["path"]):
                return PlainTextResponse("the viewer changes nothing here", 405, {"allow": "GET, HEAD"})
            if urlsplit(headers.get("origin", "")).netloc != headers.get("host"):
                return PlainTextResponse("only the page of this viewer may send this", 403)
        given = QueryParams(scope["query_string"]).get("token")
        if given is not None and _is_same(given, self.token):
            return self._exchange(scope)
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie_name(scope), "")
        if _is_same(cookie, self._secret):
            return None
        return PlainTextResponse("Open the address that `gym view` printed: it has the token.", 401)

    def _exchange(self, scope: Scope) -> Response:
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self._cookie_name(scope), self._secret, httponly=True, samesite="lax", path="/")
        return answer

    @staticmethod
    def _cookie_name(scope: Scope) -> str:
        """The name contains the port, because browsers send a cookie to all ports of a host."""
        server = scope.get("server")
        return f"ng_view_{server[1] if server else 0}"


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return send_with_headers
