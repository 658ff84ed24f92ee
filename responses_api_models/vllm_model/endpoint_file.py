"""The file in which an engine that moves between hosts publishes its base URL.

A shared serving job writes the file when it starts, and removes or empties it when it stops. The file is read again
when its modification time changes. While it is absent, the last URL stays valid for a grace period.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nemo_gym import clock
from nemo_gym.failures import EngineError


class EndpointFile:
    """The current base URL in a file."""

    def __init__(
        self,
        path: Path,
        *,
        check_interval_s: float,
        stale_grace_s: float,
        monotonic: Callable[[], float] = clock.monotonic,
    ) -> None:
        self._path = path
        self._check_interval_s = check_interval_s
        self._stale_grace_s = stale_grace_s
        self._monotonic = monotonic
        self._url: str | None = None
        self._modified_ns: int | None = None
        self._checked_at: float | None = None
        self._absent_since: float | None = None

    def url(self) -> str | None:
        """Return the published URL; None if none has been published yet.

        Raises `EngineError` if the file has been absent or empty for longer than the grace period.
        """
        now = self._monotonic()
        if self._checked_at is None or now - self._checked_at >= self._check_interval_s:
            self._checked_at = now
            self._read(now)
        if self._absent_since is not None and now - self._absent_since > self._stale_grace_s:
            raise EngineError(
                f"no base URL in {self._path} for {now - self._absent_since:.0f} s",
                code="engine_unpublished",
                retryable=True,
                remedy="Check that the serving job runs and writes its base URL to this file.",
            )
        return self._url

    def _read(self, now: float) -> None:
        try:
            modified_ns = self._path.stat().st_mtime_ns
            if modified_ns == self._modified_ns:
                return
            url = self._path.read_text(encoding="utf-8").strip()
        except OSError:
            modified_ns, url = None, ""
        self._modified_ns = modified_ns
        if url:
            self._url, self._absent_since = url, None
        elif self._absent_since is None:
            self._absent_since = now
