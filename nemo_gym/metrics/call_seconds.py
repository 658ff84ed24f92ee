"""The seconds of the calls of policy loops over the rollouts of a run, by model server and by tool.

Metrics of a run whose rows have the times of their calls:

    count/timed_calls/<kind>/<name>     answered calls; `kind` is `model` or `tools`
    mean|max/call_seconds/<kind>/<name> seconds of one of them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.timing import SECONDS, SHOWN_PHASES, CallKind, read_timed_calls
from nemo_gym.tables import write_seconds

_MEAN = "mean/call_seconds/"
_SHARE_SHOWN = 0.005
_BEFORE = "queue"
"""The phase before a rollout's seconds begin."""


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    seconds: float = 0.0
    longest: float = 0.0


class CallSeconds:
    """Adds up the seconds of the calls in rows."""

    def __init__(self) -> None:
        self._sums: dict[tuple[CallKind, str], _Sum] = {}

    def add(self, row: AnyRow) -> None:
        """Add the calls of a row."""
        for kind, name, seconds in read_timed_calls(row):
            whole = self._sums.get((kind, name)) or self._sums.setdefault((kind, name), _Sum())
            whole.calls += 1
            whole.seconds += seconds
            whole.longest = max(whole.longest, seconds)

    def metrics(self) -> dict[str, float]:
        """Return the metrics; empty without a call."""
        found: dict[str, float] = {}
        for (kind, name), whole in sorted(self._sums.items()):
            found[f"count/timed_calls/{kind}/{name}"] = whole.calls
            found[f"{_MEAN}{kind}/{name}"] = whole.seconds / whole.calls
            found[f"max/call_seconds/{kind}/{name}"] = whole.longest
        return found


@dataclass(frozen=True, slots=True)
class SlowCall:
    """The tool, or the verifier, of an agent that takes most seconds a call."""

    agent: str
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TimeAccount:
    """Where the seconds of an agent's rollouts went."""

    agent: str
    seconds: float
    """Mean seconds of a rollout."""
    phases: Mapping[str, float]
    """Mean seconds by phase, of those that are known."""
    slowest_tool: SlowCall | None
    tokens: float | None = None
    """Mean tokens of a rollout, of prompts and answers together."""

    @property
    def verifier(self) -> SlowCall | None:
        """Return the verifier of the agent; None without its seconds."""
        verify = self.phases.get("verify")
        return None if verify is None else SlowCall(self.agent, "verify", verify)

    def __str__(self) -> str:
        tokens = "" if self.tokens is None else f" and {self.tokens:,.0f} tokens"
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in self._measure_shares().items())
        told = f" ({shares})" if shares else ""
        waited = self.phases.get(_BEFORE, 0.0)
        before = (
            f" after {write_seconds(waited)} in the queue" if waited > _SHARE_SHOWN * self.seconds else ""
        )
        return f"{self.agent}: {write_seconds(self.seconds)}{tokens} a rollout{told}{before}"

    def _measure_shares(self) -> dict[str, float]:
        """Return the shares of the rollout's seconds that show.

        Calls at the same time count each, so that shares may add up to more than 1.
        """
        inside = {name: seconds for name, seconds in self.phases.items() if name != _BEFORE}
        if not inside or self.seconds <= 0:
            return {}
        inside["other"] = self.seconds - sum(inside.values())
        shares = {name: seconds / self.seconds for name, seconds in inside.items()}
        return {name: share for name, share in shares.items() if share >= _SHARE_SHOWN}


def read_time_account(agent: str, metrics: Mapping[str, Any]) -> TimeAccount | None:
    """Return the account of an agent's metrics; None without seconds."""
    seconds = metrics.get(f"mean/{SECONDS}")
    if seconds is None:
        return None
    means = {phase: metrics.get(f"mean/{SECONDS}/{phase}") for phase in SHOWN_PHASES}
    tools = (
        SlowCall(agent, key.removeprefix(f"{_MEAN}{CallKind.TOOLS}/"), value)
        for key, value in metrics.items()
        if key.startswith(f"{_MEAN}{CallKind.TOOLS}/")
    )
    slowest = max(tools, key=lambda each: each.seconds, default=None)
    phases = {phase: value for phase, value in means.items() if value is not None}
    return TimeAccount(agent, seconds, phases, slowest, metrics.get("mean/total_tokens"))


def describe_times(accounts: list[TimeAccount]) -> Iterator[str]:
    """Yield sentences: the seconds of each agent by phase, the slowest tool and the slowest verifier."""
    if not accounts:
        return
    yield "time: " + "; ".join(map(str, accounts))
    tools = [each.slowest_tool for each in accounts if each.slowest_tool is not None]
    verifiers = [each.verifier for each in accounts if each.verifier is not None]
    slowest = [
        f"{kind} {name} ({write_seconds(found.seconds)} a call)"
        for kind, name, found in (
            *(("tool", f"`{each.name}` of {each.agent}", each) for each in [_find_slowest(tools)] if each),
            *(("verifier", f"of {each.agent}", each) for each in [_find_slowest(verifiers)] if each),
        )
    ]
    if slowest:
        yield f"slowest, waits and starts of workers included: {', '.join(slowest)}"


def _find_slowest(calls: list[SlowCall]) -> SlowCall | None:
    return max(calls, key=lambda each: each.seconds, default=None)
