"""Fault plans: which request meets which fault. What the faults are is up to whoever acts them out.

The first rule that meets a request acts on it. A rule counts the requests of its routes that contain its `match`;
`nth`, `every` and `probability` choose among those, and `times` ends the rule. A plan is deterministic for a seed and
an order of requests.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine._distributions import Distribution


class Rule(BaseModel):
    """What every rule of a plan says. A subclass says of which routes, and which faults there are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    do: str | None = Field(None, description="The fault's name; left out, the request is only delayed.")
    delay_s: Distribution | None = Field(
        None, description="Seconds to wait before anything is done with the request."
    )
    match: str | None = Field(
        None, description="Only requests whose body contains this text, as JSON has it."
    )
    nth: int | list[int] | None = Field(None, description="Only the n-th of them, counted from 1.")
    every: int | None = Field(None, ge=1, description="Only each so many-th of them.")
    probability: float = Field(1.0, ge=0, le=1, description="Only this share of them.")
    times: int | None = Field(None, ge=1, description="Only so many of them, then the rule is over.")
    each: bool = Field(
        False, description="Counts `nth`, `every` and `times` for each distinct body on its own."
    )
    retry_after_s: float | None = Field(None, ge=0, description="The Retry-After header of an error.")
    over_s: float = Field(1.0, gt=0, description="How long `drip` takes.")

    @model_validator(mode="after")
    def _does_something(self) -> Rule:
        if self.do is None and self.delay_s is None:
            raise ValueError("a rule needs `do` or `delay_s`")
        return self

    @property
    def name(self) -> str:
        return self.do or "delay"

    @abstractmethod
    def concerns(self, route: str) -> bool:
        """Whether requests of `route` are the rule's."""


RuleT = TypeVar("RuleT", bound=Rule)


class Plan(Generic[RuleT]):
    """The rules, and how often each has met a request."""

    def __init__(self, rules: Sequence[RuleT], seed: int = 0) -> None:
        self.rules = tuple(rules)
        self._counted = [_CountedRule(rule, Random(f"{seed}/{place}")) for place, rule in enumerate(rules)]

    def __bool__(self) -> bool:
        return bool(self.rules)

    def pick(self, route: str, body: bytes) -> RuleT | None:
        """The rule that acts on this request, if any; counts the request for every rule that it concerns."""
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


def read_plan(written: str | list[Any] | None, rule: type[RuleT], seed: int = 0) -> Plan[RuleT]:
    """The plan in a YAML file, in YAML text, or in a list of rules. Raises ConfigError that names what is wrong."""
    if written is None:
        return Plan([], seed)
    source = "faults"
    rules: Any = written
    if isinstance(written, str):
        rules, source = _load(written)
    try:
        return Plan(TypeAdapter(list[rule]).validate_python(rules), seed)  # type: ignore[valid-type]
    except ValidationError as error:
        problems = "; ".join(
            f"rule {'.'.join(map(str, problem['loc'])) or 'list'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise ConfigError(f"{source}: {problems}.", code="faults_invalid") from error


def _load(written: str) -> tuple[Any, str]:
    """The YAML of a file, or of the text itself where it can't be a file's name."""
    is_inline = written.lstrip().startswith(("[", "-"))
    try:
        loaded = yaml.safe_load(written if is_inline else Path(written).read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(
            f"Can't read the fault plan {written}: {error}.", code="faults_unreadable"
        ) from error
    return loaded, "faults" if is_inline else written
