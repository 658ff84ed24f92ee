"""Differences between two texts that do not matter, because the user has declared their class.

No class is declared by default: a printed duration may as well be the answer. Two texts are equal but for noise if they
are equal outside of places of declared classes, and have the same classes in the same order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from nemo_gym.failures import ConfigError

_NAMED_DURATION = "|".join(
    rf"(?<=_{unit}{mark})\d+(?:\.\d+)?\b" for unit in ("ms", "seconds") for mark in (": ", "=", '": ', '":')
)
"""The number in `duration_ms: 415`, in its usual spellings."""
CLASSES: Mapping[str, str] = {
    "uuid": r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
    "address": r"\b0x[0-9a-f]{6,16}\b",
    "datetime": r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{1,2},?(?: \d\d:\d\d:\d\d)? \d{4}\b"
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b",
    "tmp_path": r"/(?:private/)?(?:var/)?(?:tmp|dev/shm)/[\w./@+-]*[\w@+-]",
    "pid": r"(?<=\bpid )\d+\b|(?<=\bpid=)\d+\b|(?<=\bpid: )\d+\b|(?<=\bPID )\d+\b|(?<=\bPID: )\d+\b",
    "port": r"(?<=localhost:)\d{2,5}\b|(?<=127\.0\.0\.1:)\d{2,5}\b|(?<=\bport )\d{2,5}\b|(?<=\bport=)\d{2,5}\b",
    "duration": r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|min|minutes?)\b|" + _NAMED_DURATION,
    "hex_id": r"(?<=\bID: )[0-9a-f]{6,64}\b|\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{6,64}\b",
}
"""Regular expressions by class, in the order in which they are tried at a place."""


class Noise:
    """The declared classes."""

    def __init__(self, classes: Iterable[str] = ()) -> None:
        """Raises `ConfigError` for a class that does not exist."""
        wanted = set(classes)
        if unknown := sorted(wanted - CLASSES.keys()):
            raise ConfigError(
                f"there is no class of noise named {', '.join(unknown)}",
                code="noise_unknown",
                param="replay_noise",
                remedy=f"The classes are {', '.join(sorted(CLASSES))}.",
            )
        parts = [f"(?P<{name}>{pattern})" for name, pattern in CLASSES.items() if name in wanted]
        self._places = re.compile("|".join(parts)) if parts else None

    def compare(self, recorded: str, said: str) -> Counter[str] | None:
        """Return the number of differences by class; None if the texts differ otherwise."""
        if recorded == said:
            return Counter()
        found, place = self._read_both(recorded, said)
        return found if place is None else None

    def find_difference(self, recorded: str, said: str) -> tuple[int, int]:
        """Return the first character of each text from which they differ, noise aside."""
        return self._read_both(recorded, said)[1] or (len(recorded), len(said))

    def _read_both(self, recorded: str, said: str) -> tuple[Counter[str], tuple[int, int] | None]:
        """Return the noise up to the first other difference, and its place in each text; None without any."""
        ours, theirs = self._find_places(recorded), self._find_places(said)
        found: Counter[str] = Counter()
        at = there = 0
        while True:
            one, other = next(ours, None), next(theirs, None)
            end = one.start() if one is not None else len(recorded)
            until = other.start() if other is not None else len(said)
            if recorded[at:end] != said[there:until]:
                equal = _count_equal(recorded[at:end], said[there:until])
                return found, (at + equal, there + equal)
            if one is None or other is None or one.lastgroup != other.lastgroup:
                return found, None if one is other else (end, until)
            if one[0] != other[0]:
                found[str(one.lastgroup)] += 1
            at, there = one.end(), other.end()

    def _find_places(self, text: str) -> Iterator[re.Match[str]]:
        return self._places.finditer(text) if self._places is not None else iter(())


def _count_equal(one: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))
