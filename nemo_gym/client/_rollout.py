"""One rollout as a trainer sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nemo_gym.failures import Boundary, Failure, GymError, TransportError, error_of
from nemo_gym.names import END_KEY

if TYPE_CHECKING:
    from nemo_gym.tokens.segments import Segment


@dataclass(frozen=True, slots=True)
class Rollout:
    """A finished rollout: its scored row, or the row of its failure."""

    row: Mapping[str, Any]
    """The task row with `response`, `reward` and the verifier's fields; of a failure, what there is of it."""

    @property
    def task(self) -> int:
        """The place of its row among the rows that were sent."""
        return int(self.row["_ng_task_index"])

    @property
    def repeat(self) -> int:
        """Which of its row's rollouts it is."""
        return int(self.row["_ng_rollout_index"])

    @property
    def reward(self) -> float | None:
        """None for a failure: it is no score."""
        return None if self.failure is not None else float(self.row["reward"])

    @property
    def outcome(self) -> str:
        """`completed`, `truncated` or `failed`."""
        return str(self.row.get("_ng_outcome", "completed"))

    @property
    def is_masked(self) -> bool:
        """Whether it is not to be trained on, though it has a reward: its environment or agent says so."""
        from nemo_gym.metrics.records import is_masked

        return is_masked(self.row)

    @property
    def failure(self) -> Failure | None:
        """Why it has no score, if it has none."""
        if self.row.get("_ng_failure_class") is None:
            return None
        told = Failure.from_wire({"error": self.row.get("_ng_failure")})
        return told or Failure(Boundary.AGENT, str(self.row["_ng_failure_class"]), "no detail was given")

    @property
    def response(self) -> Mapping[str, Any]:
        """The Responses object whose output holds every turn; empty for a failure without one."""
        return self.row.get("response") or {}

    @property
    def segments(self) -> list[Segment]:
        """The token sequences to train on, the main one first; none where no token ids were asked for."""
        from nemo_gym.tokens.rows import calls_of
        from nemo_gym.tokens.segments import segments_of

        return segments_of(calls_of(self.row))


def read_line(line: bytes) -> Rollout | None:
    """The rollout on a line of the stream; None for the last line. Raises `GymError` if the rest was given up."""
    row = json.loads(line)
    end = row.get(END_KEY)
    if end is None:
        return Rollout(row)
    stop = end.get("stop")
    if stop is not None:
        raise error_of(Failure(Boundary.AGENT, stop["code"], stop["message"], remedy=stop.get("remedy")))
    return None


def broken_off(peer: str, cause: BaseException | None = None) -> TransportError:
    """The error for a stream that ended without its last line."""
    detail = f" ({cause or type(cause).__name__})" if cause is not None else ""
    return TransportError(
        f"{peer} broke the rollouts off before the last{detail}",
        code="disconnected",
        retryable=True,
        remedy="See the log of the head server.",
        peer=peer,
    )


def refusal(status: int, body: bytes, peer: str) -> GymError:
    """The error that an answer other than 200 stands for."""
    try:
        failure = Failure.from_wire(json.loads(body), status=status)
    except ValueError:
        failure = None
    if failure is not None:
        return error_of(failure)
    quoted = body[:500].decode(errors="replace")
    return TransportError(f"{peer} answered HTTP {status}: {quoted}", code=f"http_{status}", peer=peer)
