"""`ng_fork`: new attempts that share the first calls of a recorded one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.collect_rollouts import COMMAND as COLLECT
from nemo_gym.cli.collect_rollouts import OutputKeys, RunningGymKeys, run_in_loop, run_until_stopped
from nemo_gym.cli.command import Command, ExitCode, tell
from nemo_gym.rollouts.run.options import LimitOptions, NoiseClass

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.forks import ForkSettings, Parent
    from nemo_gym.rollouts.lookback.stored import StoredRun
    from nemo_gym.rollouts.run.discovery import DiscoveredGym


class ForkKeys(RunningGymKeys, LimitOptions, OutputKeys):
    input_jsonl_fpath: str = Field(
        description="The scored rows of a run whose attempts were kept (+keep_attempts=all)."
    )
    output_jsonl_fpath: str | None = Field(  # type: ignore[assignment]
        None, description="The file for the forks' rows; by default `<stem>_forks.jsonl` beside the run's."
    )
    turn: int = Field(
        description="The model calls that forks share with their parent; negative ones count from the end."
    )
    num_forks: int = Field(1, ge=1, le=10_000, description="Forks of each parent.")
    task: int | None = Field(None, ge=0, description="Fork the rollouts of this task only.")
    repeat: int | None = Field(None, ge=0, description="Fork this repeat only.")
    rewind: bool = Field(False, description="A single fork, which stands for the rest of its parent.")
    dry_run: bool = Field(False, description="Print the calls and tokens that forks share and pay, and end.")
    replay_noise: list[NoiseClass] = Field(
        default_factory=list, description="Classes of text that may differ, as for ng_collect_rollouts."
    )
    replay_strict: bool = Field(False, description="Changed instructions are a mismatch, too.")
    mark_new_code: bool = Field(False, description="Fork even if code has changed since the run.")
    allow_identity_change: bool = Field(
        False, description="Fork even if the configuration or the code has changed since the run."
    )


COMMAND = Command(
    name="ng_fork",
    summary="Fork recorded rollouts after a turn: new attempts that share the model calls before it.",
    example="ng_fork +input_jsonl_fpath=results/rollouts.jsonl +turn=3 +num_forks=8",
    keys=ForkKeys,
    exit_codes=COLLECT.exit_codes,
)


def fork_rollouts(keys: ForkKeys) -> int:
    from nemo_gym.rollouts.lookback.forks import check_output, find_parents
    from nemo_gym.rollouts.lookback.stored import StoredRun

    run = StoredRun(Path(keys.input_jsonl_fpath), may_have_begun=True)
    settings = _build_settings(keys, run)
    parents = find_parents(run, keys.turn, task=keys.task, repeat=keys.repeat)
    if keys.dry_run:
        _print_cost(keys, run, parents)
        return ExitCode.COMPLETE
    check_output(settings, run)
    gym = run_in_loop(keys.find_gym())
    return run_in_loop(_fork(keys, settings, run, parents, gym))


def _build_settings(keys: ForkKeys, run: StoredRun) -> ForkSettings:
    from nemo_gym.rollouts.lookback.forks import ForkSettings
    from nemo_gym.rollouts.output.manifest import AllowedChanges
    from nemo_gym.rollouts.run.options import DurabilityOptions
    from nemo_gym.serving.durable.plans import ReplayMode

    files = run.files
    given = keys.output_jsonl_fpath
    return ForkSettings(
        turn=keys.turn,
        forks=1 if keys.rewind else keys.num_forks,
        output=Path(given) if given else files.folder / f"{files.stem}_forks.jsonl",
        mode=ReplayMode.REWIND if keys.rewind else ReplayMode.FORK,
        existing=keys.decide_existing(),
        limits=keys.limits,
        options=DurabilityOptions(
            durability="process",
            keep_attempts="all",
            on_mismatch="fail",
            replay_noise=keys.replay_noise,
            replay_strict=keys.replay_strict,
        ),
        allowed=AllowedChanges(keys.allow_identity_change, code=keys.mark_new_code),
    )


async def _fork(
    keys: ForkKeys, settings: ForkSettings, run: StoredRun, parents: list[Parent], gym: DiscoveredGym
) -> int:
    from functools import partial

    from nemo_gym.rollouts.lookback.forks import fork

    return await run_until_stopped(partial(fork, settings, run, parents), gym, as_json=keys.as_json)


def _print_cost(keys: ForkKeys, run: StoredRun, parents: list[Parent]) -> None:
    import json

    from nemo_gym.rollouts.lookback.fork_values import describe_left_out
    from nemo_gym.rollouts.lookback.forks import describe_cost

    forks = 1 if keys.rewind else keys.num_forks
    if keys.as_json:
        print(json.dumps({"forks": forks, "parents": [parent.to_json() for parent in parents]}, indent=2))
    else:
        print("\n".join(describe_cost(parents, forks)))
    for note in describe_left_out(run, parents):
        tell(f"note: {note}")


main = COMMAND.entry_point(fork_rollouts)
