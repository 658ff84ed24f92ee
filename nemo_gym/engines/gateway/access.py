"""The rollout that a request to a model server belongs to, by its key, its path or a session header.

A rollout's key (`Authorization: Bearer` or `x-api-key`) opens the model calls of this rollout and no other route. An
opened rollout that a path or a header names needs its key, or the run's token.
"""

from __future__ import annotations

import hmac

from nemo_gym.engines.gateway.openings import KEY_PREFIX, Opening, Openings, RolloutRefusal
from nemo_gym.names import CALL_ROUTES, MODEL_ROUTES, TOKEN_HEADER
from nemo_gym.serving._session_access import AccessRefusal, Headers
from nemo_gym.transport.context import SESSION_HEADER

_KEY_ROUTES = MODEL_ROUTES | {"/"}
"""Routes that a rollout's key opens, beside those of single models."""

SESSION_HEADERS = (
    SESSION_HEADER,
    "x-claude-code-session-id",
    "session_id",
    "session-id",
    "x-session-id",
    "x-session-affinity",
    "x-opencode-session",
)
"""Headers in which agents name their session. They route calls if a rollout was opened with this name."""

_MODEL = "/v1/models/"
_TOKEN, _API_KEY, _SESSION = TOKEN_HEADER.encode(), b"x-api-key", SESSION_HEADER.encode()
_SESSIONS = tuple(name.encode() for name in SESSION_HEADERS)


class RolloutKeys:
    """Admits requests to opened rollouts."""

    def __init__(self, openings: Openings, *, token: str | None, requires_opening: bool) -> None:
        """`token` is the run's token. With `requires_opening`, model calls of no opened rollout are refused."""
        self._openings = openings
        self._token = token.encode() if token is not None else None
        self._requires_opening = requires_opening

    def find_rollout(self, path: str, headers: Headers, in_path: str | None) -> str | None:
        """Return the opened rollout of a request, or None if it belongs to none.

        `in_path` is the rollout that the URL named. Raises `AccessRefusal` and `RolloutRefusal`.
        """
        key = _key_in(headers)
        if key is None:
            opening = self._find_named(headers, in_path) if _is_key_route(path) else None
            if opening is None:
                self._refuse_unopened(path)
                return None
            self._check_token(opening, headers)
        else:
            opening = self._find_by_key(key, path, headers, in_path)
        if opening.is_expired:
            raise AccessRefusal(
                f"rollout {opening.rollout_id} has expired",
                code="rollout_expired",
                status=401,
                remedy="Open another rollout, with a later expires_s.",
            )
        return opening.rollout_id

    def _find_by_key(self, key: str, path: str, headers: Headers, in_path: str | None) -> Opening:
        opening = self._openings.find_by_key(key)
        if opening is None:
            raise AccessRefusal(
                "the key belongs to no open rollout",
                code="rollout_key_unknown",
                status=401,
                remedy="Open the rollout with POST /ng-rollouts, and send the key of its answer.",
            )
        named = headers.get(_SESSION)
        others = {in_path, named and named.decode("latin-1")} - {None, opening.rollout_id}
        if not _is_key_route(path) or others:
            raise AccessRefusal(
                f"the key of rollout {opening.rollout_id} opens only the model calls of this rollout",
                code="rollout_key_scope",
                status=403,
                remedy="Other routes require the run's token, and other rollouts their own keys.",
            )
        return opening

    def _find_named(self, headers: Headers, in_path: str | None) -> Opening | None:
        """Return the opened rollout that the path or a session header names."""
        if in_path is not None:
            return self._openings.find(in_path)
        for name in _SESSIONS:
            if name in headers:
                opening = self._openings.find(headers[name].decode("latin-1"))
                if opening is not None:
                    return opening
        return None

    def _check_token(self, opening: Opening, headers: Headers) -> None:
        given = (headers.get(_TOKEN, b""), headers.get(_API_KEY, b""), _bearer(headers))
        if self._token is None or not any(hmac.compare_digest(proof, self._token) for proof in given):
            raise AccessRefusal(
                f"calls of rollout {opening.rollout_id} require its key",
                code="rollout_key_required",
                status=401,
                remedy="Send it as the API key: Authorization: Bearer, or x-api-key.",
            )

    def _refuse_unopened(self, path: str) -> None:
        if self._requires_opening and path in CALL_ROUTES:
            raise RolloutRefusal(
                "the call belongs to no open rollout, which require_open_rollouts demands",
                code="rollout_unknown",
                status=403,
                remedy="Open a rollout with POST /ng-rollouts, and send its key.",
            )


def _is_key_route(path: str) -> bool:
    return path in _KEY_ROUTES or path.startswith(_MODEL)


def _bearer(headers: Headers) -> bytes:
    return headers.get(b"authorization", b"").removeprefix(b"Bearer ")


def _key_in(headers: Headers) -> str | None:
    for given in (_bearer(headers), headers.get(_API_KEY, b"")):
        key = given.decode("latin-1")
        if key.startswith(KEY_PREFIX):
            return key
    return None
