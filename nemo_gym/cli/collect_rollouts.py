"""`ng_collect_rollouts`: attempt every row of a dataset with the agents of a running gym."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, Field, field_validator

from nemo_gym.cli.command import Command, ExitCode, Keys, several
from nemo_gym.config.keys import TlsKeys
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.run.options import CollectOptions, LimitOptions

if TYPE_CHECKING:
    from nemo_gym.rollouts.output.journal import Existing
    from nemo_gym.rollouts.plan.dataset import DatasetFile
    from nemo_gym.rollouts.run.discovery import DiscoveredGym
    from nemo_gym.rollouts.run.input_check import CheckedInput
    from nemo_gym.rollouts.run.settings import CollectSettings
    from nemo_gym.rollouts.run.summary import CollectSummary

ResultT = TypeVar("ResultT")


class OutputKeys(Keys):
    """The keys of all commands that write a run."""

    output_jsonl_fpath: str = Field(
        description="The file for scored rows; the run's other files are written beside it. Compressed if it ends in "
        ".jsonl.gz or .jsonl.zst."
    )
    resume_from_cache: bool = Field(False, description="Continue the run in the output, if there is one.")
    overwrite: bool = Field(False, description="Move the files of an earlier run aside and start a new run.")
    as_json: bool = Field(False, alias="json", description="Print the summary as JSON instead of a table.")

    def decide_existing(self) -> Existing:
        """Return the treatment of an earlier run in the output. Raises `ConfigError` if both flags are set."""
        from nemo_gym.rollouts.output.journal import Existing

        if self.resume_from_cache and self.overwrite:
            raise ConfigError(
                "+resume_from_cache and +overwrite exclude each other",
                code="contradiction",
                remedy="The first continues the run in the output, the second starts a new one.",
            )
        if self.resume_from_cache:
            return Existing.RESUME
        return Existing.MOVE_ASIDE if self.overwrite else Existing.REFUSE


class CollectionKeys(CollectOptions, LimitOptions, OutputKeys):
    """The keys of all commands that collect rollouts."""

    num_repeats: Annotated[int, Field(ge=1)] | dict[str, Annotated[int, Field(ge=1)]] | None = Field(
        None,
        description="Rollouts of each row, by default 1 or as its dataset declares; or numbers by the agent or "
        "`task_source` of a row, with `_default` for all others.",
    )
    estimate_from: str | list[str] = Field(
        default_factory=list,
        description="With `dry_run`: the scored rows from which it tells what the run will spend; by default those "
        "of the latest run beside the output with the same environment and model.",
    )
    collector_processes: Any = Field(
        None,
        description="Removed: one collector writes over 10,000 rows a second. Split a larger run by datasets or "
        "commands, and merge the outputs with ng_aggregate_rollouts.",
    )

    def decide_existing(self) -> Existing:
        from nemo_gym.rollouts.output.journal import Existing

        existing = super().decide_existing()
        for key in ("add_tasks", "mark_new_code", "mark_new_engine"):
            if getattr(self, key) and existing is not Existing.RESUME:
                raise ConfigError(
                    f"+{key}=true is about an earlier run, and the command begins a new one",
                    code="contradiction",
                    remedy="Add +resume_from_cache=true (gym: --resume), or leave it out.",
                )
        return existing

    @property
    def repeats_of_all(self) -> int | None:
        """The number of rollouts of each row, None if the keys do not have one."""
        return self.num_repeats if isinstance(self.num_repeats, int) else None

    @field_validator("collector_processes")
    @classmethod
    def _refuse_collector_processes(cls, _: object) -> None:
        raise ValueError(
            "the key was removed. Split a large run by datasets or commands, and merge the outputs with "
            "ng_aggregate_rollouts. A collector, which writes over 10,000 rows a second per core, is one process"
        )


class HeadServerAddress(BaseModel, extra="forbid", frozen=True):
    """The address of a head server."""

    host: str | None = Field(None, description="Its address.")
    port: int | None = Field(None, ge=1, le=65535, description="Its port.")


class DatasetKeys(Keys):
    """The keys of datasets, and of what their rows leave open."""

    input_jsonl_fpath: str | list[str] | None = None
    agent_name: str | None = Field(None, description="The agent of rows without `agent_ref`.")
    prompt_config: str | None = Field(None, description="The prompt template of rows without an input.")

    def dataset_files(self, num_repeats: int) -> list[DatasetFile]:
        """Return the files of the command line, with the settings of their rollouts."""
        from nemo_gym.rollouts.plan.dataset import DatasetFile

        prompt = Path(self.prompt_config) if self.prompt_config else None
        paths = several(self.input_jsonl_fpath or [])
        return [DatasetFile(Path(path), num_repeats, self.agent_name, prompt) for path in paths]


class RunningGymKeys(Keys):
    """The keys with which a command finds a running gym."""

    discovery_name: str | None = Field(
        None, description="The name of the gym, if several were started in this folder."
    )
    head_server: HeadServerAddress = Field(
        default_factory=HeadServerAddress,
        description="`{host, port}` of the head server, for a gym that was started in another folder.",
    )
    tls: TlsKeys | None = Field(None, description="`{ca}`: the certificates to trust, if that gym uses TLS.")
    run_token: str | None = Field(
        None, description="The token of that gym, for the metrics of its environments and for its replicas."
    )

    async def find_gym(self) -> DiscoveredGym:
        """Return the running gym. Raises `ConfigError` if there is none."""
        from nemo_gym.rollouts.run.discovery import find_gym, no_gym_in

        try:
            return await find_gym(
                Path.cwd(),
                name=self.discovery_name,
                host=self.head_server.host,
                port=self.head_server.port,
                token=self.run_token,
                ca=self.tls.ca_file if self.tls is not None else None,
            )
        except ConfigError as error:
            if error.failure.code != "no_gym_here":
                raise
            from nemo_gym.launch.observation import describe_running_gyms

            raise no_gym_in(Path.cwd(), await describe_running_gyms()) from error


class CollectKeys(RunningGymKeys, DatasetKeys, CollectionKeys):
    input_jsonl_fpath: str | list[str] = Field(
        description="The task rows: a JSONL file, plain, .gz or .zst; or several."
    )
    dry_run: bool = Field(
        False, description="Tell the rollouts of the run and what they will spend, and attempt none."
    )
    use_running_code: bool = Field(
        False, description="Use the gym also if the files of its servers were edited since it started."
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
    from nemo_gym.rollouts.run.discovery import find_gym_with
    from nemo_gym.rollouts.run.input_check import check_input, refuse_other_run

    settings = build_settings(keys, keys.dataset_files(keys.repeats_of_all or 1))
    try:
        gym = run_in_loop(keys.find_gym())
    except ConfigError as error:
        check_input(settings, error)
        raise
    # Outside of a loop, so that a signal ends a long reading at once: nothing has started.
    checked = check_input(settings, gym.config, partial(find_gym_with, Path.cwd()))
    if not keys.use_running_code:
        _refuse_old_code(gym, settings, checked)
    if keys.dry_run:
        from nemo_gym.cli._expense_estimate import print_dry_run

        run_in_loop(_check_rows(gym, checked))
        refuse_other_run(settings, checked, gym.config)
        print_dry_run(settings, checked, gym.config, several(keys.estimate_from), as_json=keys.as_json)
        return ExitCode.COMPLETE
    return run_in_loop(run_collection(settings, gym, as_json=keys.as_json, checked=checked))


async def _check_rows(gym: DiscoveredGym, checked: CheckedInput) -> None:
    """Raise `ConfigErrors` with the rows that the environments of a running gym cannot read."""
    from nemo_gym.rollouts.run.row_check import ask_servers, refuse_unfit_rows

    caller = gym.caller()
    try:
        await refuse_unfit_rows(ask_servers(caller), checked.plan, gym.config)
    finally:
        await caller.transport.close()


def _refuse_old_code(gym: DiscoveredGym, settings: CollectSettings, checked: CheckedInput) -> None:
    """Raise `ConfigError` if files of the servers that take part were edited since the gym of this machine started."""
    from nemo_gym.launch.running_code import find_edits, refuse_edits
    from nemo_gym.launch.server_code import find_declared_datasets
    from nemo_gym.names import CODE_KEY
    from nemo_gym.paths import find_file
    from nemo_gym.rollouts.run.required_servers import find_required_servers
    from nemo_gym.transport.directory import server_block

    told = gym.config.get(CODE_KEY)
    if told is None:  # a gym of an older version
        return
    blocks = [server_block(each) for each in gym.config.values()]
    declared = {path for block in blocks if block for path in find_declared_datasets(block, Path.cwd())}
    inputs = {path.resolve() for file in settings.datasets if (path := find_file(file.path)) is not None}
    edits = find_edits(
        told, find_required_servers(checked.inspection.agents, gym.config).keys(), declared | inputs
    )
    refuse_edits(edits, "the gym")


def run_in_loop(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine in the event loop that commands use."""
    import asyncio

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def run_collection(
    settings: CollectSettings,
    gym: DiscoveredGym,
    *,
    as_json: bool = False,
    checked: CheckedInput | None = None,
) -> int:
    """Collect from a running gym. Returns the exit code. `checked`: as for `collect`."""
    if settings.trackers:
        from nemo_gym.rollouts.tracking.tracked import collect_tracked as collect
    else:
        from nemo_gym.rollouts.run.collect import collect

    return await run_until_stopped(partial(collect, settings, checked=checked), gym, as_json=as_json)


async def run_until_stopped(
    work: Callable[..., Awaitable[CollectSummary]], gym: DiscoveredGym, *, as_json: bool
) -> int:
    """Run `work` on a gym with progress display, signal handling and summary. Returns the exit code."""
    from nemo_gym.rollouts.control.endpoint import serve_control
    from nemo_gym.rollouts.run.progress import display_for
    from nemo_gym.rollouts.run.stopping import Stop, stop_on_signals

    caller, stop = gym.caller(), Stop()
    try:
        with stop_on_signals(stop):
            summary = await work(caller, gym, stop=stop, display=display_for(sys.stderr), serve=serve_control)
    finally:
        if gym.transport is None:
            await caller.transport.close()
    _print(summary, as_json=as_json)
    return summary.exit_code


def _print(summary: CollectSummary, *, as_json: bool) -> None:
    if as_json:
        import orjson

        print(orjson.dumps(summary.to_json(), option=orjson.OPT_INDENT_2).decode())
        return
    from nemo_gym.rollouts.run.closing import print_summary

    print_summary(summary, sys.stdout)


def build_settings(keys: CollectionKeys, datasets: Sequence[DatasetFile]) -> CollectSettings:
    """Return the settings for the keys of a command."""
    from nemo_gym.rollouts.run.settings import CollectSettings

    return CollectSettings(
        datasets=tuple(datasets),
        output=Path(keys.output_jsonl_fpath),
        existing=keys.decide_existing(),
        limits=replace(keys.limits, most_in_parallel=keys.max_resident_rollout_tasks),
        repeats_by_agent=keys.num_repeats if isinstance(keys.num_repeats, dict) else {},
        repeats_of_all=keys.repeats_of_all or 1,
        **keys.model_dump(include=set(CollectOptions.model_fields)),
    )


main = COMMAND.entry_point(collect_rollouts)
