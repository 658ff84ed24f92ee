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
    from nemo_gym.rollouts.run.discovery import RunningGym
    from nemo_gym.rollouts.run.settings import CollectSettings
    from nemo_gym.rollouts.run.summary import CollectSummary

ResultT = TypeVar("ResultT")


class CollectOptions(Keys):
    """What any command that collects rollouts can be told about how to do it."""

    output_jsonl_fpath: str = Field(
        description="The file for scored rows; the run's other files stand beside it. Compressed if it ends in "
        ".jsonl.gz or .jsonl.zst."
    )
    limit: int | None = Field(
        None, ge=1, description="How many rows of each dataset to take; all unless given."
    )
    num_samples_in_parallel: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        64,
        description="How many rollouts are in flight at once; `auto` finds out how many saturate the engine.",
    )
    collector_processes: Any = Field(
        None,
        description="Removed: one collector writes over 10,000 rows a second. Split a larger run by datasets or "
        "commands, and merge the outputs with ng_aggregate_rollouts.",
    )
    responses_create_params: dict[str, Any] = Field(
        default_factory=dict,
        description="Laid over the parameters of every row, as +responses_create_params.x=1.",
    )
    num_repeats_add_seed: bool = Field(
        False, description="Give each repeat its number as the seed, where the engine takes one."
    )
    resume_from_cache: bool = Field(
        False, description="Go on with the run that is in the output, if there is one."
    )
    overwrite: bool = Field(False, description="Move the files of an earlier run aside and start anew.")
    allow_identity_change: bool = Field(
        False, description="Resume although rows, settings, configuration or code have changed."
    )
    skip_invalid_rows: bool = Field(False, description="Leave malformed rows out instead of refusing them.")
    max_attempts: int = Field(
        3, ge=1, description="How often a rollout is attempted while its failures may pass."
    )
    rollout_timeout_s: float | None = Field(
        1800.0, gt=0, description="How many seconds an attempt may take; null for no bound."
    )
    max_failed_fraction: float | None = Field(
        None, ge=0, le=1, description="Stop when more than this share of the rollouts has failed."
    )
    max_masked_fraction: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Fail a run in which more than this share of the model calls has no tokens to train on.",
    )
    stop_after_identical_failures: int = Field(
        20, ge=0, description="Stop when so many rollouts in a row have failed alike; 0 for never."
    )
    write_materialized_inputs: bool = Field(True, description="Keep the rows as the agents are sent them.")
    environment_metrics_max_rows: int = Field(
        10_000,
        ge=0,
        description="Ask agents for their environments' own metrics up to so many rows; 0 for never.",
    )
    as_json: bool = Field(False, alias="json", description="Print the summary as JSON instead of a table.")

    @field_validator("collector_processes")
    @classmethod
    def _refuse_collector_processes(cls, _: object) -> None:
        raise ValueError(
            "the key was removed. Split a large run by datasets or commands, and merge the outputs with "
            "ng_aggregate_rollouts. A collector, which writes over 10,000 rows a second and core, is one process"
        )


class HeadServerAddress(BaseModel):
    """Where a head server listens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str | None = Field(None, description="Its address.")
    port: int | None = Field(None, ge=1, le=65535, description="Its port.")


class CollectKeys(CollectOptions):
    input_jsonl_fpath: str | list[str] = Field(
        description="The task rows: a JSONL file, plain, .gz or .zst; or several."
    )
    agent_name: str | None = Field(None, description="The agent of rows that name none in `agent_ref`.")
    num_repeats: int = Field(1, ge=1, description="How many rollouts each row gets.")
    prompt_config: str | None = Field(None, description="The prompt template for rows that have no input.")
    head_server: HeadServerAddress = Field(
        default_factory=lambda: HeadServerAddress(host=None, port=None),
        description="`{host, port}` of the head server of a gym that was not started in this folder.",
    )
    run_token: str | None = Field(None, description="The token of that gym, for its environments' metrics.")


COMMAND = Command(
    name="ng_collect_rollouts",
    summary="Attempt every row of a dataset with the agents of a running gym, and keep the scored rows.",
    example="ng_collect_rollouts +agent_name=my_agent +input_jsonl_fpath=tasks.jsonl "
    "+output_jsonl_fpath=results/rollouts.jsonl +num_repeats=4",
    keys=CollectKeys,
    exit_codes={
        ExitCode.COMPLETE: "complete",
        ExitCode.FATAL: "stopped by a failure; what was finished is in the output",
        ExitCode.BAD_INPUT: "wrong usage, rows or output; nothing was run",
        ExitCode.PARTIAL: "some rollouts have no row; +resume_from_cache=true attempts them again",
    },
)


def collect_rollouts(keys: CollectKeys) -> int:
    async def run() -> int:
        from nemo_gym.rollouts.run.discovery import find_gym

        gym = await find_gym(
            Path.cwd(), host=keys.head_server.host, port=keys.head_server.port, token=keys.run_token
        )
        return await run_collection(settings_of(keys, datasets_of(keys)), gym, as_json=keys.as_json)

    return run_in_loop(run())


def run_in_loop(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine in the event loop that commands use."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def run_collection(settings: CollectSettings, gym: RunningGym, *, as_json: bool = False) -> int:
    """Collect from a running gym with progress, signals and summary as commands show them; the exit code."""
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
    """Print the summary for a person, or for a machine."""
    if as_json:
        import orjson

        print(orjson.dumps(summary.to_json(), option=orjson.OPT_INDENT_2).decode())
        return
    from nemo_gym.rollouts.run.summary import print_summary

    print_summary(summary, sys.stdout)


def settings_of(keys: CollectOptions, datasets: Sequence[DatasetFile]) -> CollectSettings:
    """The settings that a command's keys ask for."""
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
    """The files named on the command line."""
    from nemo_gym.rollouts.plan.dataset import DatasetFile

    named = [keys.input_jsonl_fpath] if isinstance(keys.input_jsonl_fpath, str) else keys.input_jsonl_fpath
    prompt = Path(keys.prompt_config) if keys.prompt_config else None
    return [DatasetFile(Path(path), keys.num_repeats, keys.agent_name, prompt) for path in named]


def existing_of(resume: bool, overwrite: bool) -> Existing:
    """What to do about an earlier run in the output. Raises `ConfigError` for both at once."""
    from nemo_gym.rollouts.output.journal import Existing

    if resume and overwrite:
        raise ConfigError(
            "+resume_from_cache and +overwrite exclude each other",
            code="contradiction",
            remedy="The first goes on with the run that is in the output, the second starts another.",
        )
    if resume:
        return Existing.RESUME
    return Existing.MOVE_ASIDE if overwrite else Existing.REFUSE


def main(argv: Sequence[str] | None = None) -> None:
    sys.exit(COMMAND.run(argv, collect_rollouts))
