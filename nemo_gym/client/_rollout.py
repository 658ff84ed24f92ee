"""A rollout as returned to a trainer, and the errors of a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nemo_gym.failures import Boundary, Failure, GymError, TransportError, build_error
from nemo_gym.names import END_KEY
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import ROLLOUT_INDEX_KEY, TASK_INDEX_KEY
from nemo_gym.rows.version import require_readable

if TYPE_CHECKING:
    from nemo_gym.tokens.segments import Segment


@dataclass(frozen=True, slots=True)
class Rollout:
    """A finished rollout: its scored row, or the row of its failure."""

    row: AnyRow
    """The task row with `response`, `reward` and the verifier's fields; the failure row of a failure."""

    @property
    def task(self) -> int:
        """The index of its row in the request."""
        return int(self.row[TASK_INDEX_KEY])

    @property
    def repeat(self) -> int:
        """The number of the rollout within its row."""
        return int(self.row[ROLLOUT_INDEX_KEY])

    @property
    def reward(self) -> float | None:
        """The reward; None for a failure."""
        from nemo_gym.rows.verdict import read_reward

        return read_reward(self.row)

    @property
    def outcome(self) -> str:
        """`completed`, `truncated` or `failed`."""
        from nemo_gym.rows.verdict import read_outcome

        return read_outcome(self.row).value

    @property
    def is_masked(self) -> bool:
        """Return whether its environment or agent excluded it from training, although it has a reward."""
        from nemo_gym.rows.verdict import is_masked

        return is_masked(self.row)

    @property
    def is_tamperable(self) -> bool:
        """Return whether its answer ran beside its verifier and could have forged the reward."""
        from nemo_gym.rows.verdict import is_tamperable

        return is_tamperable(self.row)

    @property
    def failure(self) -> Failure | None:
        """The failure; None for a scored rollout."""
        from nemo_gym.rows.verdict import read_failure

        return read_failure(self.row)

    @property
    def response(self) -> Mapping[str, Any]:
        """The Responses object with the output of all turns; empty for a failure without one."""
        from nemo_gym.rows.parts import read_response

        return read_response(self.row)

    @property
    def policy_versions(self) -> tuple[int | str, ...]:
        """The versions of the policy with which its calls were stamped, each once (docs/tokens.md)."""
        from nemo_gym.rows.calls import read_calls

        stamped = [v for call in read_calls(self.row) for v in (call.policy_version, call.policy_version_end)]
        return tuple(dict.fromkeys(version for version in stamped if version is not None))

    @property
    def segments(self) -> list[Segment]:
        """The token sequences to train on, the main one first; empty if token ids were not requested."""
        from nemo_gym.rows.calls import read_calls
        from nemo_gym.tokens.segments import build_segments

        return build_segments(read_calls(self.row))


def read_line(line: bytes) -> Rollout | None:
    """Return the rollout on a line; None for the last line.

    Raises `GymError` if the run was stopped, or if the gym is newer than this client.
    """
    row = json.loads(line)
    end = row.get(END_KEY)
    if end is None:
        require_readable(row, "the stream of rollouts")
        return Rollout(row)
    stop = end.get("stop")
    if stop is not None:
        raise build_error(Failure(Boundary.AGENT, stop["code"], stop["message"], remedy=stop.get("remedy")))
    return None


def build_broken_stream_error(peer: str, cause: BaseException | None = None) -> TransportError:
    """Return the error for a stream that ended without its last line."""
    detail = f" ({cause or type(cause).__name__})" if cause is not None else ""
    return TransportError(
        f"the stream of rollouts from {peer} ended early{detail}",
        code="disconnected",
        retryable=True,
        remedy="See the log of the head server.",
        peer=peer,
    )


def refusal(status: int, body: bytes, peer: str) -> GymError:
    """Return the error for an answer other than 200."""
    try:
        failure = Failure.from_wire(json.loads(body), status=status)
    except ValueError:
        failure = None
    if failure is not None:
        return build_error(failure)
    quoted = body[:500].decode(errors="replace")
    return TransportError(f"{peer} answered HTTP {status}: {quoted}", code=f"http_{status}", peer=peer)
