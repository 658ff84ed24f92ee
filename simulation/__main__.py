"""`python -m simulation`: whole collections in virtual time under random faults, until one violates an invariant."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from simulation import Finding, Scenario, Search

_TOLD_EVERY_S = 10.0
_GROUPS_OF_A_SESSION = 2_000
_OF_A_SEARCH = ("seeds", "first_seed", "most_findings")
"""Keys that have no meaning for a single seed."""


class SimulateKeys(Keys):
    seeds: int = Field(1000, ge=1, description="Number of seeds; each is a whole collection.")
    first_seed: int = Field(0, ge=0, description="The first seed.")
    most_findings: int = Field(
        3, ge=1, description="Stop after this number of seeds that violate an invariant."
    )
    seed: int | None = Field(None, ge=0, description="Play only this seed, and print all its events.")
    keep: list[int] | None = Field(
        None, description="With `seed`: play only these of its faults, by index; [] for none."
    )
    groups: int | None = Field(
        None, ge=1, description="Play this number of groups through rollout sessions instead."
    )
    as_json: bool = Field(False, alias="json", description="Print JSON instead of text.")


COMMAND = Command(
    name="python -m simulation",
    summary="Play collections in virtual time under random faults, and check that nothing is lost or made up.",
    example="python -m simulation +seeds=1000",
    keys=SimulateKeys,
    exit_codes={
        ExitCode.COMPLETE: "no invariant was violated",
        ExitCode.FATAL: "an invariant was violated",
        ExitCode.BAD_INPUT: "wrong usage",
        ExitCode.INTERRUPTED: "interrupted",
    },
)


def simulate(keys: SimulateKeys) -> int:
    if keys.groups is not None:
        return _play_groups(keys.groups)
    _refuse_contradictions(keys)
    return _search(keys) if keys.seed is None else _show(keys, keys.seed)


def _play_groups(groups: int) -> int:
    """Play rollout sessions until the number of groups is reached, or a law is violated."""
    from simulation.sessions import draw_scenario, play

    left, seed, delivered, cancelled = groups, 0, 0, 0
    while left > 0:
        tasks = min(left, _GROUPS_OF_A_SESSION)
        played = play(draw_scenario(seed, tasks))
        if played.violation is not None:
            print(f"session {seed}: {played.violation}")
            return ExitCode.FATAL
        delivered, cancelled = delivered + played.delivered, cancelled + played.cancelled
        left, seed = left - tasks, seed + 1
    told = f"{groups:,} groups in {seed:,} sessions: {delivered:,} delivered, {cancelled:,} cancelled"
    print(f"{told}; no law was violated.")
    return ExitCode.COMPLETE


def _refuse_contradictions(keys: SimulateKeys) -> None:
    if keys.seed is None and keys.keep is not None:
        raise ConfigError(
            "+keep selects faults of one seed, but +seed is missing",
            code="keep_without_seed",
            remedy="Add +seed=N.",
        )
    of_a_search = [name for name in _OF_A_SEARCH if name in keys.model_fields_set]
    if keys.seed is not None and of_a_search:
        raise ConfigError(
            f"+seed plays a single seed, but +{of_a_search[0]} is for a search over seeds",
            code="seed_and_seeds",
            remedy=f"Leave +seed or +{of_a_search[0]} out.",
        )


def _search(keys: SimulateKeys) -> int:
    from simulation import Search

    search = Search()
    began = told_at = time.monotonic()
    for seed in range(keys.first_seed, keys.first_seed + keys.seeds):
        finding = search.examine(seed)
        if finding is not None and not keys.as_json:
            print(f"{finding}\n", flush=True)
        if len(search.findings) == keys.most_findings:
            break
        if time.monotonic() - told_at > _TOLD_EVERY_S:
            told_at = time.monotonic()
            progress = (
                f"{search.seeds:,} of {keys.seeds:,} seeds, {len(search.findings)} violate an invariant"
            )
            print(progress, file=sys.stderr, flush=True)
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps(_summary(search, seconds), indent=2) if keys.as_json else _sentence(search, seconds))
    return ExitCode.FATAL if search.findings else ExitCode.COMPLETE


def _summary(search: Search, seconds: float) -> dict[str, Any]:
    return {
        "seeds": search.seeds,
        "rollouts": search.rollouts,
        "faults": search.faults,
        "virtual_hours": round(search.virtual_s / 3600, 1),
        "seconds": seconds,
        "findings": [_to_json(finding) for finding in search.findings],
    }


def _sentence(search: Search, seconds: float) -> str:
    seeds = "1 seed" if search.seeds == 1 else f"{search.seeds:,} seeds"
    count = len(search.findings)
    outcome = (
        f"{count} violate{'s' if count == 1 else ''} an invariant" if count else "no invariant was violated"
    )
    return (
        f"{seeds}: {outcome}. {search.rollouts:,} rollouts met {search.faults:,} faults in "
        f"{search.virtual_s / 3600:,.1f} virtual hours ({seconds:,} s)."
    )


def _show(keys: SimulateKeys, seed: int) -> int:
    """Play one seed and print its scenario, its events and its violations."""
    from simulation import draw, play

    scenario = draw(seed)
    numbers = _chosen(scenario, keys.keep)
    result = play(scenario.keeping(numbers))
    violations = [str(violation) for violation in result.violations]
    faults = [f"{number}. {scenario.faults[number]}" for number in numbers]
    events = [str(event) for event in result.events]
    if keys.as_json:
        document = {"seed": seed, "faults": faults, "trace": result.digest, "violations": violations}
        print(json.dumps(document | {"events": events}, indent=2))
    else:
        print("\n".join([f"seed {seed}: {scenario}", *(f"  {fault}" for fault in faults), *events]))
        print(f"trace {result.digest}")
        print("\n".join(violations) or "no invariant was violated")
    return ExitCode.FATAL if violations else ExitCode.COMPLETE


def _chosen(scenario: Scenario, keep: list[int] | None) -> list[int]:
    """Return the indices of the faults to play. Raises `ConfigError` for an unknown index."""
    numbers = list(range(len(scenario.faults)))
    if keep is None:
        return numbers
    unknown = [number for number in keep if number not in numbers]
    if unknown:
        raise ConfigError(
            f"seed {scenario.seed} has {len(numbers)} faults; fault {unknown[0]} does not exist",
            code="unknown_fault",
            remedy="Faults are numbered from 0; without +keep all are played, and printed with their numbers.",
        )
    return sorted(set(keep))


def _to_json(finding: Finding) -> dict[str, Any]:
    return {
        "seed": finding.seed,
        "law": finding.violation.invariant,
        "message": finding.violation.message,
        "at_s": finding.violation.at,
        "faults": [str(fault) for fault in finding.faults],
        "keep": list(finding.kept),
        "faults_drawn": finding.drawn,
        "trace": finding.digest,
        "replays_exactly": finding.is_exact,
        "command": finding.command,
    }


main = COMMAND.entry_point(simulate)


if __name__ == "__main__":
    main()
