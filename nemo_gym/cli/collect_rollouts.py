"""`ng_collect_rollouts`: attempt every row of a dataset with the agents of a running gym."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from nemo_gym.rollouts.output.journal import Existing
    from nemo_gym.rollouts.plan.dataset import DatasetFile
    from nemo_gym.rollouts.run.discovery import DiscoveredGym
    from nemo_gym.rollouts.run.settings import CollectSettings
    from nemo_gym.rollouts.run.summary import CollectSummary

ResultT = TypeVar("ResultT")


class CollectOptions(Keys):
    """The keys of all commands that collect rollouts."""

    output_jsonl_fpath: str = Field(
        description="The file for scored rows; the run's other files are written beside it. Compressed if it ends in "
        ".jsonl.gz or .jsonl.zst."
    )
    limit: int | None = Field(
        None, ge=1, description="The maximum number of rows of each dataset; by default all."
    )
    num_samples_in_parallel: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        64,
        description="Rollouts in flight at once; `auto` determines how many saturate the engine.",
    )
    collector_processes: Any = Field(
        None,
        description="Removed: one collector writes over 10,000 rows a second. Split a larger run by datasets or "
        "commands, and merge the outputs with ng_aggregate_rollouts.",
    )
    responses_create_params: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters that override those of every row: +responses_create_params.x=1.",
    )
    num_repeats_add_seed: bool = Field(
        False, description="Use the number of each repeat as its seed, if the engine supports seeds."
    )
    resume_from_cache: bool = Field(False, description="Continue the run in the output, if there is one.")
    overwrite: bool = Field(False, description="Move the files of an earlier run aside and start a new run.")
    allow_identity_change: bool = Field(
        False, description="Resume even if rows, settings, configuration or code have changed."
    )
    skip_invalid_rows: bool = Field(
        False, description="Skip malformed rows instead of rejecting the dataset."
    )
    max_attempts: int = Field(3, ge=1, description="Attempts at a rollout whose failures are temporary.")
    rollout_timeout_s: float | None = Field(
        1800.0, gt=0, description="Seconds that an attempt may take; null for no limit."
    )
    max_failed_fraction: float | None = Field(
        None, ge=0, le=1, description="Stop if more than this fraction of the rollouts has failed."
    )
    max_masked_fraction: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Fail the run if more than this fraction of model calls has no tokens for training.",
    )
    stop_after_identical_failures: int = Field(
        20, ge=0, description="Stop after this number of consecutive identical failures; 0 for never."
    )
    write_materialized_inputs: bool = Field(
        True, description="Write the rows in the form in which agents receive them."
    )
    environment_metrics_max_rows: int = Field(
        10_000,
        ge=0,
        description="Compute the environments' own metrics for runs of at most this many rows; 0 for never.",
    )
    as_json: bool = Field(False, alias="json", description="Print the summary as JSON instead of a table.")

    @field_validator("collector_processes")
    @classmethod
    def _refuse_collector_processes(cls, _: object) -> None:
        raise ValueError(
            "the key was removed. Split a large run by datasets or commands, and merge the outputs with "
            "ng_aggregate_rollouts. A collector, which writes over 10,000 rows a second per core, is one process"
        )


class HeadServerAddress(BaseModel):
    """The address of a head server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str | None = Field(None, description="Its address.")
    port: int | None = Field(None, ge=1, le=65535, description="Its port.")


class CollectKeys(CollectOptions):
    input_jsonl_fpath: str | list[str] = Field(
        description="The task rows: a JSONL file, plain, .gz or .zst; or several."
    )
    agent_name: str | None = Field(None, description="The agent of rows without `agent_ref`.")
    num_repeats: int = Field(1, ge=1, description="Rollouts of each row.")
    prompt_config: str | None = Field(None, description="The prompt template of rows without an input.")
    head_server: HeadServerAddress = Field(
        default_factory=lambda: HeadServerAddress(host=None, port=None),
        description="`{host, port}` of the head server, for a gym that was started in another folder.",
    )
    run_token: str | None = Field(
        None, description="The token of that gym, for the metrics of its environments."
    )


COMMAND = Command(
    name="ng_collect_rollouts",
    summary="Attempt every row of a dataset with the agents of a running gym, and write the scored rows.",
    example="ng_collect_rollouts +agent_name=my_agent +input_jsonl_fpath=tasks.jsonl "
    "+output_jsonl_fpath=results/rollouts.jsonl +num_repeats=4",
    keys=CollectKeys,
    exit_codes={
        ExitCode.COMPLETE: "complete",
        ExitCode.FATAL: "stopped by a failure; finished rollouts are in the output",
        ExitCode.BAD_INPUT: "wrong usage, rows or output; nothing was started",
        ExitCode.PARTIAL: "some rollouts have no row; +resume_from_cache=true attempts them again",
    },
)


def collect_rollouts(keys: CollectKeys) -> int:
    settings = settings_of(keys, datasets_of(keys))

    async def run() -> int:
        from nemo_gym.rollouts.run.discovery import find_gym

        gym = await find_gym(
            Path.cwd(), host=keys.head_server.host, port=keys.head_server.port, token=keys.run_token
        )
        return await run_collection(settings, gym, as_json=keys.as_json)

    return run_in_loop(run())


def run_in_loop(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine in the event loop that commands use."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def run_collection(settings: CollectSettings, gym: DiscoveredGym, *, as_json: bool = False) -> int:
    """Collect from a running gym with progress display, signal handling and summary. Returns the exit code."""
    from nemo_gym.rollouts.run.collect import collect
    from nemo_gym.rollouts.run.progress import display_for
    from nemo_gym.rollouts.run.stopping import Stop, stop_on_signals

    caller, stop = gym.caller(), Stop()
    try:
        with stop_on_signals(stop):
            summary = await collect(settings, caller, gym, stop=stop, display=display_for(sys.stderr))
    finally:
        if gym.transport is None:
            await caller.transport.close()
    show(summary, as_json=as_json)
    return summary.exit_code


def show(summary: CollectSummary, *, as_json: bool) -> None:
    """Print the summary as a table or as JSON."""
    if as_json:
        import orjson

        print(orjson.dumps(summary.to_json(), option=orjson.OPT_INDENT_2).decode())
        return
    from nemo_gym.rollouts.run.summary import print_summary

    print_summary(summary, sys.stdout)


def settings_of(keys: CollectOptions, datasets: Sequence[DatasetFile]) -> CollectSettings:
    """Return the settings for the keys of a command."""
    from nemo_gym.rollouts.run.collector import RunLimits
    from nemo_gym.rollouts.run.settings import CollectSettings

    return CollectSettings(
        datasets=tuple(datasets),
        output=Path(keys.output_jsonl_fpath),
        limit=keys.limit,
        responses_create_params=keys.responses_create_params,
        num_repeats_add_seed=keys.num_repeats_add_seed,
        existing=existing_of(keys.resume_from_cache, keys.overwrite),
        allow_identity_change=keys.allow_identity_change,
        skip_invalid_rows=keys.skip_invalid_rows,
        limits=RunLimits(
            in_parallel=keys.num_samples_in_parallel,
            max_attempts=keys.max_attempts,
            rollout_timeout_s=keys.rollout_timeout_s,
        ),
        stop_after_identical_failures=keys.stop_after_identical_failures,
        max_failed_fraction=keys.max_failed_fraction,
        write_materialized_inputs=keys.write_materialized_inputs,
        environment_metrics_max_rows=keys.environment_metrics_max_rows,
        max_masked_fraction=keys.max_masked_fraction,
    )


def datasets_of(keys: CollectKeys) -> list[DatasetFile]:
    """Return the files of the command line."""
    from nemo_gym.rollouts.plan.dataset import DatasetFile

    named = [keys.input_jsonl_fpath] if isinstance(keys.input_jsonl_fpath, str) else keys.input_jsonl_fpath
    prompt = Path(keys.prompt_config) if keys.prompt_config else None
    return [DatasetFile(Path(path), keys.num_repeats, keys.agent_name, prompt) for path in named]


def existing_of(resume: bool, overwrite: bool) -> Existing:
    """Return the treatment of an earlier run in the output. Raises `ConfigError` if both flags are set."""
    from nemo_gym.rollouts.output.journal import Existing

    if resume and overwrite:
        raise ConfigError(
            "+resume_from_cache and +overwrite exclude each other",
            code="contradiction",
            remedy="The first continues the run in the output, the second starts a new one.",
        )
    if resume:
        return Existing.RESUME
    return Existing.MOVE_ASIDE if overwrite else Existing.REFUSE


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(COMMAND.run(argv, collect_rollouts))
