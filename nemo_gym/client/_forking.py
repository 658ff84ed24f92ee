"""Forks of recorded rollouts, for `Gym.fork`: made by this process, as `gym fork` does, with the servers of a gym."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

import orjson

from nemo_gym.client._connecting import GymAddress
from nemo_gym.client._rollout import Rollout
from nemo_gym.failures import EngineError
from nemo_gym.rollouts.lookback.forks import ForkSettings, check_output, find_parents, fork
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.run.discovery import DiscoveredGym, find_gym
from nemo_gym.rollouts.run.options import DurabilityOptions, NoiseClass, RunLimits
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.verdict import is_terminal


class ForkOptions(TypedDict, total=False):
    """The options of forks, named as those of `gym fork`."""

    task: int
    """Fork the rollouts of this task only."""
    repeat: int
    """Fork this repeat only."""
    output: str | Path
    """The file for the forks' rows; by default `<stem>_forks.jsonl` beside the run's."""
    noise: Iterable[NoiseClass]
    """Classes of text that may differ from the record."""
    resume: bool
    """Make the forks that are missing in `output`."""
    num_samples_in_parallel: int
    """Forks in flight; default 64."""


async def fork_stored(
    address: GymAddress, rows: Path, turn: int, forks: int, options: ForkOptions
) -> list[Rollout]:
    """Return the forks of the recorded rollouts of a run, including failures. Raises `GymError`."""
    run = StoredRun(rows, may_have_begun=True)
    files = run.files
    settings = ForkSettings(
        turn=turn,
        forks=forks,
        output=Path(options.get("output", files.folder / f"{files.stem}_forks.jsonl")),
        existing=Existing.RESUME if options.get("resume") else Existing.REFUSE,
        limits=RunLimits(in_parallel=options.get("num_samples_in_parallel", 64)),
        options=DurabilityOptions(
            durability="process",
            keep_attempts="all",
            on_mismatch="fail",
            replay_noise=[*options.get("noise", ())],
        ),
    )
    parents = find_parents(run, turn, task=options.get("task"), repeat=options.get("repeat"))
    check_output(settings, run)
    gym = await _find(address)
    caller = gym.caller()
    try:
        summary = await fork(settings, run, parents, caller, gym)
    finally:
        if gym.transport is None:
            await caller.transport.close()
    _refuse_broken(summary)
    return _read_rollouts(settings.output)


async def _find(address: GymAddress) -> DiscoveredGym:
    place = urlsplit(address.url)
    return await find_gym(
        Path.cwd(), host=place.hostname, port=place.port, token=address.token, ca=address.ca
    )


def _refuse_broken(summary: CollectSummary) -> None:
    if summary.stop is not None:
        raise EngineError(summary.stop.message, code=summary.stop.code, remedy=summary.stop.remedy)


def _read_rollouts(output: Path) -> list[Rollout]:
    files = RunFiles.from_output(output)
    scored = [orjson.loads(line) for line in files.rows.read_bytes().splitlines()]
    failures = files.failures.read_bytes().splitlines() if files.failures.exists() else []
    failed = [row for row in map(orjson.loads, failures) if is_terminal(row)]
    found = [Rollout(row) for row in (*scored, *failed)]
    return sorted(found, key=lambda rollout: (rollout.task, rollout.repeat))
