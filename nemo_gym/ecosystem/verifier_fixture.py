"""Cases of a verifier in a JSONL file, run in this process: one full reward, one zero reward, one malformed request.

A line is `{"name", "kind", "request", "expected_reward" | "expected_error"}`. Every case runs on a fresh server. A
verifier that draws random numbers from a seed (`determinism="seeded"`) also needs a case of kind `determinism`, whose
request is verified on two fresh servers after `VerifierFixture.reseed`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from nemo_gym.rows.keys import REWARD_KEY
from nemo_gym.rows.verdict import is_reward

CaseKind = Literal["full_reward", "zero_reward", "malformed", "determinism"]
Invocation = Callable[[Any, Any], Any]
"""Gets a server and a request; returns a result or an awaitable."""
REQUIRED_KINDS: tuple[CaseKind, ...] = ("full_reward", "zero_reward", "malformed")
DETERMINISM = ("seeded", "stochastic", "unknown")


class VerifierFixtureError(ValueError):
    """A case is not valid, or the verifier does not do what it says."""


@dataclass(frozen=True)
class VerifierFixture:
    """A verifier and the file of its cases."""

    server_factory: Callable[[], object]
    request_model: type[BaseModel]
    cases_path: str | Path
    invoke: Invocation | None = None
    """Calls the verifier in another way than `await server.verify(request)`."""
    reseed: Invocation | None = None
    """Sets the seed of a server before a case of kind `determinism`."""


class VerifierFixtureCase(BaseModel, extra="forbid", str_strip_whitespace=True):
    """A line of the file."""

    name: str = Field(min_length=1)
    kind: CaseKind
    request: dict[str, Any]
    expected_reward: Annotated[float, Field(strict=True, allow_inf_nan=False)] | None = None
    expected_error: str | None = None
    """A part of the error's text, for cases of kind `malformed`."""

    @model_validator(mode="after")
    def _has_one_expectation(self) -> VerifierFixtureCase:
        is_malformed = self.kind == "malformed"
        if is_malformed != bool(self.expected_error) or is_malformed == (self.expected_reward is not None):
            raise ValueError("a malformed case has an expected_error, and any other one an expected_reward")
        return self


@dataclass(frozen=True)
class VerifierFixtureResult:
    """The rewards of one case; none for a malformed request."""

    name: str
    kind: CaseKind
    observed_rewards: tuple[float, ...] = ()


def load_verifier_fixture(path: str | Path) -> list[VerifierFixtureCase]:
    """Return the cases of a file. Raises `VerifierFixtureError` for a file that cannot be read or is not valid."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise VerifierFixtureError(f"the cases in {path} cannot be read: {error}") from error
    cases = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                cases.append(VerifierFixtureCase.model_validate_json(line))
            except ValidationError as error:
                raise VerifierFixtureError(
                    f"{path}:{number}: the case is not valid: {error.errors()[0]['msg']}"
                ) from error
    if not cases:
        raise VerifierFixtureError(f"{path} contains no cases")
    return cases


async def exercise_verifier_fixture(
    fixture: VerifierFixture,
    *,
    reward_range: Sequence[float],
    higher_is_better: bool = True,
    determinism: str | Enum,
    update_expected: bool = False,
) -> tuple[VerifierFixtureResult, ...]:
    """Run all cases and return their rewards. Raises `VerifierFixtureError` for the first that differs.

    The full reward must be the better end of `reward_range`, and the zero reward the other one. `determinism` is
    `seeded`, `stochastic` or `unknown`; only a seeded verifier runs the cases of that kind. `update_expected` writes
    the observed rewards into the file instead of comparing them.
    """
    worst, best = _ends(reward_range, higher_is_better)
    is_seeded = _is_seeded(determinism)
    cases = load_verifier_fixture(fixture.cases_path)
    required = (*REQUIRED_KINDS, "determinism") if is_seeded else REQUIRED_KINDS
    missing = [kind for kind in required if all(case.kind != kind for case in cases)]
    if missing:
        raise VerifierFixtureError(f"{fixture.cases_path} has no case of kind {', '.join(missing)}")
    results, updated = [], []
    for case in cases:
        if case.kind == "determinism" and not is_seeded:
            updated.append(case)
            continue
        run = _Run(fixture, case, update_expected)
        results.append(
            await (run.check_refusal() if case.kind == "malformed" else run.check_score(worst, best))
        )
        updated.append(run.update_case())
    if updated != cases:
        _write_cases(Path(fixture.cases_path), updated)
    return tuple(results)


@dataclass
class _Run:
    """One case of a fixture."""

    fixture: VerifierFixture
    case: VerifierFixtureCase
    updates: bool
    observed: float | None = None

    async def check_refusal(self) -> VerifierFixtureResult:
        try:
            await self._verify()
        except Exception as error:
            if str(self.case.expected_error) in str(error):
                return VerifierFixtureResult(self.case.name, self.case.kind)
            raise self._error(f"its error does not contain {self.case.expected_error!r}: {error}") from error
        raise self._error("no error was raised")

    async def check_score(self, worst: float, best: float) -> VerifierFixtureResult:
        rewards = [await self._reward()]
        if self.case.kind == "determinism":
            rewards.append(await self._reward())
        self.observed = rewards[0]
        wanted = {"full_reward": best, "zero_reward": worst, "determinism": rewards[-1]}[self.case.kind]
        if not min(worst, best) <= self.observed <= max(worst, best):
            raise self._error(f"the reward {self.observed} is outside the range from {worst} to {best}")
        expected = [wanted] if self.updates else [wanted, self.case.expected_reward]
        for value in expected:
            if self.observed != value:
                raise self._error(f"the reward is {self.observed} and not {value}")
        return VerifierFixtureResult(self.case.name, self.case.kind, tuple(rewards))

    def update_case(self) -> VerifierFixtureCase:
        if not self.updates or self.observed is None:
            return self.case
        return self.case.model_copy(update={"expected_reward": self.observed})

    async def _reward(self) -> float:
        try:
            result = await self._verify()
        except Exception as error:
            raise self._error(f"the verifier failed: {error}") from error
        reward = (
            result.get(REWARD_KEY) if isinstance(result, Mapping) else getattr(result, REWARD_KEY, result)
        )
        if not is_reward(reward):
            raise self._error(f"the reward is {reward!r} and not a finite number")
        return float(reward)

    async def _verify(self) -> Any:
        server: Any = self.fixture.server_factory()
        request = self.fixture.request_model.model_validate(self.case.request)
        if self.case.kind == "determinism":
            if self.fixture.reseed is None:
                raise self._error("a seeded verifier needs `reseed`")
            await _await_if_needed(self.fixture.reseed(server, request))
        verify = self.fixture.invoke
        return await _await_if_needed(
            verify(server, request) if verify is not None else server.verify(request)
        )

    def _error(self, problem: str) -> VerifierFixtureError:
        return VerifierFixtureError(f"case {self.case.name!r} of {self.fixture.cases_path}: {problem}")


def _write_cases(path: Path, cases: Iterable[VerifierFixtureCase]) -> None:
    path.write_text(
        "".join(f"{case.model_dump_json(exclude_none=True)}\n" for case in cases), encoding="utf-8"
    )


async def _await_if_needed(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _ends(reward_range: Sequence[float], higher_is_better: bool) -> tuple[float, float]:
    """Return the worst and the best reward. Raises `VerifierFixtureError` for an invalid range."""
    ends = [float(value) for value in reward_range]
    if len(ends) != 2 or not all(map(math.isfinite, ends)) or ends[0] > ends[1]:
        raise VerifierFixtureError(
            f"reward_range is {reward_range!r}; it must be two finite numbers in order"
        )
    return (ends[0], ends[1]) if higher_is_better else (ends[1], ends[0])


def _is_seeded(determinism: str | Enum) -> bool:
    value = str(determinism.value if isinstance(determinism, Enum) else determinism)
    if value not in DETERMINISM:
        raise VerifierFixtureError(f"determinism is {value!r}; it must be one of {', '.join(DETERMINISM)}")
    return value == "seeded"
