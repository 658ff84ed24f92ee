"""`ng_e2e_collect_rollouts`: start the servers of a configuration, collect rollouts from them, stop them.

As in `ng_run`, the fork server starts before other modules are imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym.cli.run import run_starting_servers

if TYPE_CHECKING:
    from nemo_gym.cli.command import ConfigCommand
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.launch.gym import RunningGym
    from nemo_gym.processes.fork_server import ForkServer
    from nemo_gym.rollouts.plan.dataset import DatasetFile
    from nemo_gym.rollouts.run.discovery import DiscoveredGym


def __getattr__(name: str) -> Any:
    if name == "COMMAND":
        return command()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def command() -> ConfigCommand[Any]:
    """The command's keys and help."""
    from pydantic import Field

    from nemo_gym.cli.collect_rollouts import COMMAND as COLLECT
    from nemo_gym.cli.collect_rollouts import CollectionKeys, DatasetKeys
    from nemo_gym.cli.command import ConfigCommand, PlacedKeys
    from nemo_gym.config.types import DatasetType

    class EndToEndKeys(PlacedKeys, DatasetKeys, CollectionKeys):
        input_jsonl_fpath: str | list[str] | None = Field(
            None, description="The task rows; by default the datasets of the configuration."
        )
        split: DatasetType = Field("example", description="The type of the declared datasets to use.")
        agent_name: str | None = Field(
            None,
            description="The agent of rows without `agent_ref`. Only this agent's declared datasets are used.",
        )

    return ConfigCommand(
        name="ng_e2e_collect_rollouts",
        summary="Start the servers of a configuration, collect rollouts, and stop the servers.",
        example="ng_e2e_collect_rollouts '+config_paths=[configs/math.yaml]' +split=validation "
        "+output_jsonl_fpath=results/rollouts.jsonl",
        keys=EndToEndKeys,
        exit_codes=COLLECT.exit_codes,
    )


def collect_end_to_end(
    keys: Any, config: GlobalConfig, *, began: float, fork_server: ForkServer | None
) -> int:
    """Return the exit code of the collection. Raises `ConfigError` before servers start, `LaunchError` afterwards."""
    from nemo_gym.cli.collect_rollouts import build_settings, run_collection, run_in_loop
    from nemo_gym.cli.command import ExitCode
    from nemo_gym.launch.reporting import Reporter
    from nemo_gym.launch.serving import prepare, require_servers, running, stop_signals, wait_ready_or
    from nemo_gym.rollouts.run.input_check import check_input

    require_servers(config)
    settings = build_settings(keys, choose_datasets(keys, config))
    checked = check_input(settings, config.data)
    reporter = Reporter(lambda: sys.stderr)
    if config.data.get("dry_run"):
        prepare(config, reporter)
        return ExitCode.COMPLETE

    async def start_and_collect() -> int:
        from nemo_gym.rollouts.run.engine_check import check_engines
        from nemo_gym.rollouts.run.required_servers import find_required_servers

        if keys.placement in ("process", "inline"):  # the engines of nodes may be out of this machine's reach
            await check_engines(find_required_servers(checked.inspection.agents, config.data))
        async with running(
            config, reporter, began=began, fork_server=fork_server, placement=keys.placement
        ) as gym:
            with stop_signals() as stop:
                if not await wait_ready_or(stop, gym, reporter, began):
                    return ExitCode.INTERRUPTED
            collection = partial(run_collection, settings, as_json=keys.as_json, checked=checked)
            return await _collect_while_up(collection, gym)

    return run_in_loop(start_and_collect())


async def _collect_while_up(
    collection: Callable[[DiscoveredGym], Coroutine[Any, Any, int]], gym: RunningGym
) -> int:
    """Collect while the servers run. Raises the `LaunchError` of a server that cannot be kept running."""
    import asyncio

    from nemo_gym.rollouts.run import discovery

    seen = discovery.DiscoveredGym(gym.config, gym.token, gym.transport, gym.log_folder)
    collecting = asyncio.create_task(collection(seen))
    either: list[asyncio.Future[Any]] = [collecting, gym.failure]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if collecting.done():
            return collecting.result()
    finally:
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)
    raise gym.failure.result()


def choose_datasets(keys: Any, config: GlobalConfig) -> list[DatasetFile]:
    """Return the files of the command line, or the declared datasets of the requested type."""
    from nemo_gym.datasets.declared import list_declared_files

    if keys.input_jsonl_fpath is None:
        prompt = Path(keys.prompt_config) if keys.prompt_config else None
        return list_declared_files(config, keys.split, keys.agent_name, keys.repeats_of_all, prompt)
    files: list[DatasetFile] = keys.dataset_files(keys.repeats_of_all or 1)
    return files


def main(argv: Sequence[str] | None = None) -> None:
    run_starting_servers(argv, command, collect_end_to_end, "nemo_gym.rollouts.run.collect")
