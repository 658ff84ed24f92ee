"""Sessions that are over, which a client tells a model server with its next call.

A model server keeps the token ids of each session. No call says that a session is over, because it would cost as much
as a sampled answer does: the names wait for the next call that goes to the same process.
"""

from __future__ import annotations

from nemo_gym.transport.calls import Call
from nemo_gym.transport.context import ENDED_HEADER, RequestContext, current_context
from nemo_gym.transport.directory import Directory

_MOST = 64
"""Names that wait for one process; a server that is told nothing drops old sessions all the same."""
_SEPARATOR = ","


class EndedSessions:
    """The names that wait, by the address of a process."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._by_url: dict[str, list[str]] = {}

    def note_end(self) -> None:
        """Let the current session's name wait for the next call of each model server that the request has called.

        A session that a caller has named is the caller's, and does not end here.
        """
        context = current_context.get()
        if context is not None and context.models:
            for server in context.models:
                self.add(server, context.session)

    def add(self, server: str, session: str) -> None:
        """Let the name of a session wait for the next call of the process of `server` that has served it."""
        if _SEPARATOR in session:
            return
        names = self._by_url.setdefault(self._directory.choose(server, session), [])
        names.append(session)
        del names[:-_MOST]

    def tell(self, server: str, call: Call, context: RequestContext | None) -> None:
        """Give a model call the names that wait for the process that it goes to, and note its server for `note_end`."""
        if context is not None and context.models is not None:
            context.models.add(server)
        if not self._by_url or (call.session is None and len(self._directory.replicas(server)) > 1):
            return
        names = self._by_url.pop(self._directory.choose(server, call.session), None)
        if names:
            call.headers[ENDED_HEADER] = _SEPARATOR.join(names)


def read_ended(header: bytes) -> list[str]:
    """Return the names in the header."""
    return header.decode("latin-1").split(_SEPARATOR)
