"""The engine's fault plan: rules that assign faults to requests (see `nemo_gym.mock_engine.fault_plan`).

- {do: http_429, retry_after_s: 1, nth: 3}              # the third generation request
- {do: reset_after, probability: 0.05}                  # one in twenty, by the engine's seed
- {do: http_503, times: 1, each: true}                  # every distinct request fails once, then works
- {do: drip, over_s: 2, match: "capital of France"}     # requests with this text in their body
- {delay_s: "lognormal:2:1", every: 10}                 # late, but complete
- {do: hang, route: models}
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, field_validator

from nemo_gym.mock_engine.fault_kinds import FAULTS, Fault
from nemo_gym.mock_engine.fault_plan import Rule, RulePlan, read_plan

RouteName: TypeAlias = Literal[
    "chat", "completions", "responses", "models", "tokenize", "detokenize", "health"
]
GENERATION_ROUTES: tuple[RouteName, ...] = ("chat", "completions", "responses")


class FaultRule(Rule):
    """One rule of a plan."""

    route: RouteName | list[RouteName] = Field(
        list(GENERATION_ROUTES), description="The rule's routes; by default the generation routes."
    )

    @field_validator("do")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in FAULTS:
            raise ValueError(f"{name!r} is not a fault. Faults: {', '.join(FAULTS)}")
        return name

    @property
    def fault(self) -> Fault | None:
        return FAULTS[self.do] if self.do is not None else None

    def concerns(self, route: str) -> bool:
        return route in ([self.route] if isinstance(self.route, str) else self.route)


FaultPlan: TypeAlias = RulePlan[FaultRule]


def read_faults(written: str | list[Any] | None, seed: int = 0) -> FaultPlan:
    """Read a plan from a YAML file, YAML text, or a list of rules. Raises ConfigError with every problem."""
    return read_plan(written, FaultRule, seed)
