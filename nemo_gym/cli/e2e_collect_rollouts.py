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
    from nemo_gym.rollouts.plan.plan import PlanSettings
    from nemo_gym.rollouts.run.discovery import DiscoveredGym
    from nemo_gym.rollouts.run.input_check import CheckedInput
    from nemo_gym.rollouts.run.settings import CollectSettings

_WRITERS_OF_TOKENS = frozenset({"inference_provider", "local_vllm_model", "scripted_model", "vllm_model"})
"""The model servers that have an option for the form of token ids."""


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
    from nemo_gym.cli.command import ExitCode, several
    from nemo_gym.launch.reporting import Reporter
    from nemo_gym.launch.serving import prepare, require_servers, running, stop_signals, wait_ready_or
    from nemo_gym.rollouts.run.input_check import refuse_other_run

    require_servers(config)
    pack_tokens(config)
    settings = build_settings(keys, choose_datasets(keys, config))
    checked = _check_input(settings, config, fork_server)
    if keys.resume_from_cache:
        refuse_other_run(settings, checked, _with_code(config))
    reporter = Reporter(lambda: sys.stderr)
    if config.data.get("dry_run"):
        from nemo_gym.cli._expense_estimate import print_dry_run

        prepare(config, reporter)
        print_dry_run(settings, checked, config.data, several(keys.estimate_from), as_json=keys.as_json)
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


def _check_input(
    settings: CollectSettings, config: GlobalConfig, fork_server: ForkServer | None
) -> CheckedInput:
    """Return the checked input. The environments check its rows in forks, unless they start in this process at once."""
    from nemo_gym.cli.collect_rollouts import run_in_loop
    from nemo_gym.launch.task_checks import TaskChecks
    from nemo_gym.rollouts.run.input_check import check_input
    from nemo_gym.rollouts.run.row_check import refuse_unfit_rows

    is_dry = bool(config.data.get("dry_run"))
    if fork_server is None and not is_dry:
        return check_input(settings, config.data)
    with TaskChecks(config.servers, config.data, fork_server) as checks:

        def check_rows(plan: PlanSettings) -> list[str]:
            notes = run_in_loop(refuse_unfit_rows(checks.ask, plan, config.data))
            reasons = checks.unimported.items() if is_dry else ()
            return [*notes, *(f"`{name}` cannot check its rows here: {reason}" for name, reason in reasons)]

        checked = check_input(settings, config.data, check_rows=check_rows)
        return checked._replace(environments=checks.environments)


def pack_tokens(config: GlobalConfig) -> None:
    """Have the model servers write token ids packed, if their options name no form.

    The run alone reads their answers. Trainers call servers of `ng_run`, which keep the form of the contract.
    """
    for server in config.servers:
        if server.implementation in _WRITERS_OF_TOKENS and server.config.get("return_token_id_information"):
            config.data[server.name][server.kind][server.implementation].setdefault("token_fields", "packed")


def _with_code(config: GlobalConfig) -> dict[str, Any]:
    """Return the configuration with the code of its servers, as the gym will have it."""
    from nemo_gym.launch.server_code import describe_code
    from nemo_gym.names import CODE_KEY

    return {**config.data, CODE_KEY: describe_code(config.servers, Path.cwd())}


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
    """Return the files of the command line, or the declared datasets of the requested type.

    Raises `ConfigError` for an agent that no declared dataset can have, and without a dataset.
    """
    from nemo_gym.datasets.declared import list_declared_files
    from nemo_gym.rollouts.run.required_servers import require_agents

    if keys.input_jsonl_fpath is None:
        if keys.agent_name is not None:
            require_agents([keys.agent_name], config.data)
        prompt = Path(keys.prompt_config) if keys.prompt_config else None
        return list_declared_files(config, keys.split, keys.agent_name, keys.repeats_of_all, prompt)
    files: list[DatasetFile] = keys.dataset_files(keys.repeats_of_all or 1)
    return files


def main(argv: Sequence[str] | None = None) -> None:
    run_starting_servers(argv, command, collect_end_to_end, "nemo_gym.rollouts.run.collect")
