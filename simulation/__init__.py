"""Whole collections, simulated: one process, virtual time, one seed, and a fault plan that the gym must survive.

    from simulation import draw, play

    result = play(draw(17))
    assert result.finding is None

The servers, the collector and the journal are real. Simulated are time, ids and randomness (`nemo_gym.clock`), the
network (`nemo_gym.transport.Transport`) and the disk (`nemo_gym.rollouts.output.disk`). After every event the
invariants in `invariants` and `deadlines` are checked. See `docs/simulation.md`.
"""

from simulation.monitor import Violation
from simulation.play import Result, play
from simulation.scenario import Scenario, draw
from simulation.search import Finding, Search, shrink

__all__ = ["Finding", "Result", "Scenario", "Search", "Violation", "draw", "play", "shrink"]
