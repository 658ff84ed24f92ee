"""The engine's fault plan: rules that assign faults to requests (see `nemo_gym.mock_engine.fault_plan`).

- {do: http_429, retry_after_s: 1, nth: 3}              # the third generation request
- {do: reset_after, probability: 0.05}                  # one in twenty, by the engine's seed
- {do: http_503, times: 1, each: true}                  # every distinct request fails once, then works
- {do: drip, over_s: 2, match: "capital of France"}     # requests with this text in their body
- {delay_s: "lognormal:2:1", every: 10}                 # late, but complete
- {do: hang, route: models}
- {do: finish_abort, at_token: 5, nth: 1}               # aborted after five tokens
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from nemo_gym.mock_engine.fault_kinds import FAULTS, Fault
from nemo_gym.mock_engine.fault_plan import Rule, RulePlan

RouteName: TypeAlias = Literal[
    "chat", "completions", "responses", "generate", "models", "tokenize", "detokenize", "health"
]
GENERATION_ROUTES: tuple[RouteName, ...] = ("chat", "completions", "responses", "generate")


class FaultRule(Rule):
    """One rule of a plan."""

    known_faults = FAULTS

    route: RouteName | tuple[RouteName, ...] = Field(
        GENERATION_ROUTES, description="The rule's routes; by default the generation routes."
    )

    at_token: int | None = Field(
        None,
        ge=0,
        description="`finish_abort`: tokens after which a generation is cut; shorter ones are whole.",
    )

    @property
    def fault(self) -> Fault | None:
        return FAULTS[self.do] if self.do is not None else None


FaultPlan: TypeAlias = RulePlan[FaultRule]
