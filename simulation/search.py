"""Search over seeds. Each violation is reduced to a minimal set of faults.

search = Search()
for seed in range(1000):
    finding = search.examine(seed)
    if finding is not None:
        print(finding)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulation.faults import Fault
from simulation.monitor import Violation
from simulation.play import play
from simulation.scenario import Scenario, draw
from simulation.shrinking import fewest


@dataclass(frozen=True, slots=True)
class Finding:
    """An invariant that a seed violates, with a minimal set of faults."""

    seed: int
    violation: Violation
    """The violation under the minimal set of faults."""
    kept: tuple[int, ...]
    """The indices of these faults among the seed's faults."""
    faults: tuple[Fault, ...]
    """The minimal set of faults."""
    drawn: int
    """The number of the seed's faults."""
    digest: str
    """The digest of the trace under the minimal set of faults."""
    is_exact: bool
    """True if a second replay had the same trace."""

    @property
    def command(self) -> str:
        """The command that replays the finding and prints its events."""
        return f"python -m simulation +seed={self.seed} '+keep=[{','.join(map(str, self.kept))}]'"

    def __str__(self) -> str:
        numbered = (f"    {number}. {fault}" for number, fault in zip(self.kept, self.faults, strict=True))
        faults = [f"  minimal set of faults ({len(self.kept)} of {self.drawn}):", *numbered]
        nothing = [f"  no fault is needed (of {self.drawn})"]
        exact = (
            "twice with the same trace" if self.is_exact else "twice with DIFFERENT traces: not deterministic"
        )
        return "\n".join(
            [
                f"seed {self.seed}  {self.violation}",
                *(faults if self.kept else nothing),
                f"  replayed {exact}: trace {self.digest}",
                f"  replay with all events: {self.command}",
            ]
        )


@dataclass(slots=True)
class Search:
    """The totals of the examined seeds."""

    seeds: int = 0
    rollouts: int = 0
    """Planned rollouts."""
    faults: int = 0
    """Faults that occurred."""
    virtual_s: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def examine(self, seed: int) -> Finding | None:
        """Play a seed. Return its finding, reduced to a minimal set of faults, if any."""
        result = play(draw(seed))
        self.seeds += 1
        self.rollouts += result.scenario.planned
        self.faults += result.faults_met
        self.virtual_s += result.seconds
        if result.finding is None:
            return None
        finding = shrink(result.scenario, result.finding)
        self.findings.append(finding)
        return finding


def shrink(scenario: Scenario, violation: Violation) -> Finding:
    """Reduce a scenario that has `violation` to a minimal set of faults."""

    def breaks_it(numbers: Sequence[int]) -> bool:
        found = play(scenario.keeping(numbers)).finding
        return found is not None and found.invariant == violation.invariant

    kept = fewest(len(scenario.faults), breaks_it)
    smallest = scenario.keeping(kept)
    first, second = play(smallest), play(smallest)
    return Finding(
        seed=scenario.seed,
        violation=first.finding or violation,
        kept=kept,
        faults=smallest.faults,
        drawn=len(scenario.faults),
        digest=first.digest,
        is_exact=first.digest == second.digest and first.finding == second.finding,
    )
