"""The agents that attempt a row, and the number of rollouts that each of them makes.

A row is routed by its source: the agent that it names, or else its `task_source`, the server of its dataset. The agent
is the first of: `agent_map` of the source, `agent_map` of `_default`, the agent that the row names, the only agent that
uses its `task_source`, the agent of the dataset, the only agent of the gym. `fan_out` replaces it by several agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_agent, read_task_source

DEFAULT_SOURCE = "_default"
"""The key of a mapping for all rows that have no key of their own."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The choice of agents, and of the number of rollouts, by row."""

    agent_map: Mapping[str, str] = field(default_factory=dict)
    """Source → agent."""
    fan_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Source → the agents that each attempt its rows; `_default` is for all others."""
    num_repeats: Mapping[str, int] = field(default_factory=dict)
    """Agent or source → rollouts of each row; empty if the dataset's number applies to all rows."""
    agents_of_sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Server → the agents that use it, for rows with a `task_source` only."""
    only_agent: str | None = None
    """The agent of a gym that has only one."""

    @property
    def is_uniform(self) -> bool:
        """Whether every row has the number of rollouts that its dataset declares."""
        return not self.fan_out and not self.num_repeats

    def find_agent(self, row: AnyRow, default: str | None) -> str | None:
        """Return the agent of a row before `fan_out`, None if there is none. `default` is the dataset's agent."""
        source = read_source(row)
        mapped = self.agent_map.get(source) or self.agent_map.get(DEFAULT_SOURCE)
        if mapped:
            return mapped
        users = self.agents_of_sources.get(source, ())
        return read_agent(row) or (users[0] if len(users) == 1 else default or self.only_agent)

    def agents(self, source: str, agent: str) -> Sequence[str]:
        """Return the agents that attempt a row: those of `fan_out`, or only `agent`."""
        return self.fan_out.get(source) or self.fan_out.get(DEFAULT_SOURCE) or (agent,)

    def repeats(self, agent: str, source: str, default: int) -> int | None:
        """Return the rollouts of a row by `agent`; None if `num_repeats` has no key for it."""
        if not self.num_repeats:
            return default
        found = (self.num_repeats.get(key) for key in (agent, source, DEFAULT_SOURCE))
        return next((number for number in found if number is not None), None)

    def most_repeats(self, default: int) -> int:
        """Return the largest number of rollouts of a row by one agent."""
        return max(self.num_repeats.values(), default=default)


def read_source(row: AnyRow) -> str:
    """Return the key by which a row is routed; empty if it has none."""
    return read_agent(row) or read_task_source(row)
