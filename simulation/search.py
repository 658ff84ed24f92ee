"""Seeds, one after the other; where one breaks a law, the fewest faults that break it.

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
from simulation.play import play
from simulation.scenario import Scenario, draw
from simulation.shrinking import fewest
from simulation.witness import Violation


@dataclass(frozen=True, slots=True)
class Finding:
    """A law that a seed breaks, and the least that has to go wrong for that."""

    seed: int
    violation: Violation
    """As it shows when only the fewest faults are played."""
    kept: tuple[int, ...]
    """Which of the seed's faults these are, by their number from 0."""
    faults: tuple[Fault, ...]
    """The fewest faults."""
    drawn: int
    """How many faults the seed has."""
    digest: str
    """Of everything that happens when they are played."""
    is_exact: bool
    """Whether a second play was the same, event by event."""

    @property
    def command(self) -> str:
        """What plays the finding again and shows its events."""
        return f"python -m simulation +seed={self.seed} '+keep=[{','.join(map(str, self.kept))}]'"

    def __str__(self) -> str:
        numbered = (f"    {number}. {fault}" for number, fault in zip(self.kept, self.faults, strict=True))
        faults = [f"  the fewest faults that do it ({len(self.kept)} of {self.drawn}):", *numbered]
        nothing = [f"  no fault is needed (of {self.drawn})"]
        exact = "twice, the same both times" if self.is_exact else "twice, AND NOT THE SAME: chance got in"
        return "\n".join(
            [
                f"seed {self.seed}  {self.violation}",
                *(faults if self.kept else nothing),
                f"  played {exact}: trace {self.digest}",
                f"  again, with all events: {self.command}",
            ]
        )


@dataclass(slots=True)
class Search:
    """What the seeds that were examined came to."""

    seeds: int = 0
    rollouts: int = 0
    """As planned."""
    faults: int = 0
    """That came to pass."""
    virtual_s: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def examine(self, seed: int) -> Finding | None:
        """Play a seed; what it breaks, made as small as it gets."""
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
    """The finding of a scenario that is known to break the law of `violation`."""

    def breaks_it(numbers: Sequence[int]) -> bool:
        found = play(scenario.keeping(numbers)).finding
        return found is not None and found.law == violation.law

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
