"""Fault plans: rules that assign named faults to requests. The servers define and apply the faults.

The first rule that selects a request applies to it. A rule counts the requests of its routes that contain its
`match`; `nth`, `every` and `probability` select among those, and `times` limits the selections. A plan is
deterministic for a seed and an order of requests.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

import yaml
from pydantic import (
    BaseModel,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from nemo_gym.config.yaml_text import load_yaml
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine._distributions import Distribution


class Rule(BaseModel, extra="forbid", frozen=True):
    """The fields of every rule."""

    known_faults: ClassVar[Collection[str]]
    """The names for `do`."""

    do: str | None = Field(None, description="The fault's name; without it, the request is only delayed.")
    route: str | tuple[str, ...] | None = Field(None, description="The rule's routes; all by default.")
    delay_s: Distribution | None = Field(None, description="Seconds to wait before the request is processed.")
    match: str | None = Field(
        None, description="Only requests whose body contains this text, as JSON has it."
    )
    nth: int | list[int] | None = Field(None, description="Only the n-th of those, counted from 1.")
    every: int | None = Field(None, ge=1, description="Only every n-th of those.")
    probability: float = Field(1.0, ge=0, le=1, description="Only this share of those, at random.")
    times: int | None = Field(None, ge=1, description="Maximum number of selections by the rule.")
    each: bool = Field(
        False, description="Count `nth`, `every` and `times` separately for each distinct body."
    )
    retry_after_s: float | None = Field(None, ge=0, description="The Retry-After header of an error.")
    over_s: float = Field(1.0, gt=0, description="Duration of `drip` in seconds.")

    @field_validator("do")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in cls.known_faults:
            raise ValueError(f"{name!r} is not a fault. Faults: {', '.join(cls.known_faults)}")
        return name

    @model_validator(mode="after")
    def _does_something(self) -> Rule:
        if self.do is None and self.delay_s is None:
            raise ValueError("a rule needs `do` or `delay_s`")
        return self

    @property
    def name(self) -> str:
        return self.do or "delay"

    def concerns(self, route: str) -> bool:
        """Return whether the rule covers `route`."""
        return self.route is None or route in ((self.route,) if isinstance(self.route, str) else self.route)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of an error."""
        return [] if self.retry_after_s is None else [(b"retry-after", b"%g" % self.retry_after_s)]


RuleT = TypeVar("RuleT", bound=Rule)


class RulePlan(Generic[RuleT]):
    """The rules with their counts."""

    def __init__(self, rules: Sequence[RuleT], seed: int = 0) -> None:
        self.rules = tuple(rules)
        self._counted = [_CountedRule(rule, Random(f"{seed}/{place}")) for place, rule in enumerate(rules)]

    def __bool__(self) -> bool:
        return bool(self.rules)

    def pick(self, route: str, body: bytes) -> RuleT | None:
        """Return the rule that applies to this request, if any. Every rule of the route counts the request."""
        met = [counted for counted in self._counted if counted.meets(route, body)]
        return met[0].act(body) if met else None


class _CountedRule(Generic[RuleT]):
    def __init__(self, rule: RuleT, rng: Random) -> None:
        self.rule = rule
        self._rng = rng
        self._match = rule.match.encode() if rule.match is not None else None
        self._nth = frozenset([rule.nth] if isinstance(rule.nth, int) else rule.nth or ())
        self._seen: Counter[int] = Counter()
        self._acted: Counter[int] = Counter()

    def meets(self, route: str, body: bytes) -> bool:
        rule = self.rule
        if not rule.concerns(route) or (self._match is not None and self._match not in body):
            return False
        key = self._key(body)
        self._seen[key] += 1
        seen = self._seen[key]
        if self._nth and seen not in self._nth:
            return False
        if rule.every is not None and seen % rule.every:
            return False
        if rule.probability < 1 and self._rng.random() >= rule.probability:
            return False
        return rule.times is None or self._acted[key] < rule.times

    def act(self, body: bytes) -> RuleT:
        self._acted[self._key(body)] += 1
        return self.rule

    def _key(self, body: bytes) -> int:
        return zlib.crc32(body) if self.rule.each else 0


def read_plan(written: str | list[Any] | None, rule: type[RuleT], seed: int = 0) -> RulePlan[RuleT]:
    """Read a plan from a YAML file, YAML text, or a list of rules. Raises ConfigError with every problem."""
    if written is None:
        return RulePlan([], seed)
    source = "faults"
    rules: Any = written
    if isinstance(written, str):
        rules, source = _load(written)
    try:
        return RulePlan(TypeAdapter(list[rule]).validate_python(rules), seed)  # type: ignore[valid-type]
    except ValidationError as error:
        problems = "; ".join(
            f"rule {'.'.join(map(str, problem['loc'])) or 'list'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise ConfigError(f"{source}: {problems}.", code="faults_invalid") from error


def _load(written: str) -> tuple[Any, str]:
    """Load YAML from a file, or from the text itself if it starts like a list."""
    is_inline = written.lstrip().startswith(("[", "-"))
    try:
        loaded = load_yaml(written if is_inline else Path(written).read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(
            f"Can't read the fault plan {written}: {error}.", code="faults_unreadable"
        ) from error
    return loaded, "faults" if is_inline else written
