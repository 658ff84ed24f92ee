"""How a call over a socket fails: the codes of `TransportError`, and what each one means for another attempt.

code                  the peer has seen the call    a new attempt may succeed
invalid_url           no                            no
name_unresolved       no                            no
connect_refused       no                            yes
connect_timeout       no                            yes
too_many_files        no                            yes
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


_SPEAKS_HTTP = "Check that the URL is that of an HTTP/1.1 server."
_KINDS = {
    "invalid_url": _Kind(
        "{peer} can't be called with this request", "A base URL looks like http://host:port/v1.", False
    ),
    "name_unresolved": _Kind("the name of {peer} does not resolve", "Check the host in the URL.", False),
    "connect_refused": _Kind(
        "{peer} refuses the connection", "Check that it runs and that host and port are right."
    ),
    "connect_timeout": _Kind("{peer} did not accept the connection in time"),
    "too_many_files": _Kind(
        "no file descriptor is left to connect to {peer}",
        "Raise `ulimit -n` or lower the number of rollouts in parallel.",
    ),
    "unasked_answer": _Kind("{peer} answered or hung up before it was asked", _SPEAKS_HTTP),
    "answer_timeout": _Kind("{peer} did not answer in time"),
    DISCONNECTED: _Kind("{peer} broke the connection off before its answer was whole"),
    MALFORMED_ANSWER: _Kind("{peer} answered with malformed HTTP", _SPEAKS_HTTP),
    UNSUPPORTED_ANSWER: _Kind(
        "{peer} answered in a way that was not asked for", "Turn it off in the server or in its proxy.", False
    ),
    REDIRECTED: _Kind(
        "{peer} redirects the call, and redirects are not followed",
        "Give the URL that it redirects to.",
        False,
    ),
}


def call_failed(code: str, peer: str, detail: object) -> TransportError:
    """The error for `code`. `detail`: an exception, or words, that say more."""
    kind = _KINDS[code]
    shown = str(detail) or type(detail).__name__
    return TransportError(
        f"{kind.message.format(peer=peer)} ({shown})",
        code=code,
        retryable=kind.retryable,
        remedy=kind.remedy,
        peer=peer,
    )
