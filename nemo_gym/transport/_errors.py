"""The codes of `TransportError`: whether the peer may have received the call, and whether to try again.

code                  the peer received the call    a new attempt may succeed
invalid_url           no                            no
name_unresolved       no                            no
connect_refused       no                            yes
connect_timeout       no                            yes
too_many_files        no                            yes
untrusted             no                            no
no_tls                no                            yes
unasked_answer        no                            yes
answer_timeout        perhaps                       yes
disconnected          perhaps                       yes
malformed_answer      perhaps                       yes, on another connection
unsupported_answer    yes                           no
redirected            yes                           no
"""

from __future__ import annotations

from typing import NamedTuple

from nemo_gym.failures import TransportError

DISCONNECTED = "disconnected"
MALFORMED_ANSWER = "malformed_answer"
UNSUPPORTED_ANSWER = "unsupported_answer"
REDIRECTED = "redirected"


class _Kind(NamedTuple):
    message: str
    remedy: str | None = None
    retryable: bool = True


_CHECK_URL = "Check that the URL is that of an HTTP/1.1 server."
_UNDELIVERED = {
    "invalid_url": _Kind(
        "{peer} cannot be called with this request", "A base URL looks like http://host:port/v1.", False
    ),
    "name_unresolved": _Kind("the name of {peer} does not resolve", "Check the host in the URL.", False),
    "connect_refused": _Kind(
        "{peer} refuses the connection", "Check that the server runs and that host and port are right."
    ),
    "connect_timeout": _Kind("{peer} did not accept the connection in time"),
    "too_many_files": _Kind(
        "no file descriptor is left to connect to {peer}",
        "Raise `ulimit -n` or lower the number of rollouts in parallel.",
    ),
    "untrusted": _Kind(
        "the certificate of {peer} is refused",
        "It must be valid for the host in the URL, and signed by an authority that this client trusts: `tls.ca` for "
        "the servers of a gym.",
        False,
    ),
    "no_tls": _Kind("{peer} breaks off the TLS handshake", "Check that the server speaks TLS."),
    "unasked_answer": _Kind("{peer} sent data or closed the connection before the request", _CHECK_URL),
}
UNDELIVERED_CODES = frozenset(_UNDELIVERED)
"""Codes of transport errors that exclude any delivery of the call to the peer."""
_KINDS = _UNDELIVERED | {
    "answer_timeout": _Kind("{peer} did not answer in time"),
    DISCONNECTED: _Kind("{peer} closed the connection before its response was complete"),
    MALFORMED_ANSWER: _Kind("{peer} answered with malformed HTTP", _CHECK_URL),
    UNSUPPORTED_ANSWER: _Kind(
        "{peer} used an HTTP feature that the request did not ask for",
        "Turn the feature off in the server or in its proxy.",
        False,
    ),
    REDIRECTED: _Kind(
        "{peer} redirects the call, and redirects are not followed",
        "Set the URL to the target of the redirect.",
        False,
    ),
}


def call_failed(code: str, peer: str, detail: object) -> TransportError:
    """Return the error for `code`. `detail`: an exception or a text, quoted in the message."""
    kind = _KINDS[code]
    shown = str(detail) or type(detail).__name__
    return TransportError(
        f"{kind.message.format(peer=peer)} ({shown})",
        code=code,
        retryable=kind.retryable,
        remedy=kind.remedy,
        peer=peer,
    )
