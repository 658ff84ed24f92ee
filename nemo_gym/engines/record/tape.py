"""The replies of an engine to one call of an attempt: kept while the call is live, and given again when it is replayed.

The seam is the engine's reply. Everything above it (token linkage, APIs, streams, notes) runs in a replay as it did in
the original, so the rows are equal. A reply given higher up would begin another token sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import NamedTuple, TypeAlias

from nemo_gym.failures import EngineError
from nemo_gym.tokens.records import PolicyVersion

_HELPERS = ("/detokenize", "/tokenize")
"""Routes that sample nothing. A replay may ask them again."""
MISMATCH = "replay_mismatch"
"""The code of a failure: a replayed attempt does not say what the recorded one said."""

Versions: TypeAlias = tuple[PolicyVersion | None, PolicyVersion | None]
"""The policy's versions at the beginning and at the end of a call."""
PartVersions: TypeAlias = Sequence[tuple[int, PolicyVersion | None]]
"""The first token and the version of each part of an answer that several versions sampled."""


class EngineReplyKept(NamedTuple):
    """A reply of an engine to `POST path`."""

    path: str
    status: int
    body: bytes
    url: str
    """The base URL of the replica."""


class EngineTape:
    """The engine's replies to one call."""

    def __init__(
        self,
        replayed: Sequence[EngineReplyKept] | None = None,
        versions: Versions = (None, None),
        check_versions: Callable[[PolicyVersion | None, PolicyVersion | None], None] | None = None,
        parts: PartVersions = (),
    ) -> None:
        """`replayed`: the replies to give, in order; None for a live call. `versions` and
        `parts`: those of the recorded call.

        `check_versions` gets the recorded version and the current one, and raises if they are too far apart.
        """
        self._left = list(replayed) if replayed is not None else None
        self.replies: list[EngineReplyKept] = []
        """The replies of this call so far, replayed or live."""
        self.versions = versions
        self.parts = parts
        self._check_versions = check_versions

    def take(self, path: str) -> EngineReplyKept | None:
        """Return the recorded reply of a route; None if the engine is to be asked.

        Raises `EngineError` if the recorded call asked the engine no more.
        """
        if self._left is None:
            return None
        kept = next((each for each in self._left if each.path == path), None)
        if kept is not None:
            self._left.remove(kept)
            self.replies.append(kept)
        elif path not in _HELPERS:
            raise EngineError(
                f"the replayed call asks the engine for {path} once more than the recorded one",
                code=MISMATCH,
                remedy="The model server or its engine has changed: begin the attempt afresh.",
                status=409,
            )
        return kept

    def add(self, reply: EngineReplyKept) -> None:
        self.replies.append(reply)

    def settle_versions(self, began: PolicyVersion | None, ended: PolicyVersion | None) -> Versions:
        """Return the versions of the call: the recorded ones if it is replayed, else those given."""
        if self._left is None:
            self.versions = (began, ended)
        elif self._check_versions is not None:
            self._check_versions(self.versions[0], ended)
        return self.versions

    def settle_parts(self, parts: PartVersions) -> PartVersions:
        """Return the versions of an answer's parts: the recorded ones if it is replayed, else those given."""
        if self._left is None:
            self.parts = parts
        return self.parts


current_tape: ContextVar[EngineTape | None] = ContextVar("nemo_gym_engine_tape", default=None)
"""The tape of the call that this code answers; None unless its attempt is durable."""
