"""`ng_run`: start the servers of a configuration and keep them running.

The fork server starts first, and imports the server stack while the configuration is read. This module therefore has
few imports, and creates the command on first use.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

from nemo_gym.launch.early_start import NEEDED_INLINE, NEEDED_TO_START, early_fork_server
from nemo_gym.serving.garbage import collected_rarely

if TYPE_CHECKING:
    from nemo_gym.cli.command import ConfigCommand
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.launch.gym import RunningGym
    from nemo_gym.launch.serving import WhileUp
    from nemo_gym.processes.fork_server import ForkServer


def __getattr__(name: str) -> Any:
    if name == "COMMAND":
        return command()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def command() -> ConfigCommand[Any]:
    """Return the command."""
    from pydantic import Field

    from nemo_gym.cli.command import ConfigCommand, PlacedKeys

    class RunCommandKeys(PlacedKeys):
        as_json: bool = Field(False, alias="json", description="Print events as JSON, one per line.")
        openenv_port: int | None = Field(
            None,
            ge=0,
            le=65_535,
            description="Offer the environment by OpenEnv's protocol at this port, 0 for any free one; "
            "its agents and their policy do not start.",
        )
        input_jsonl_fpath: str | list[str] | None = Field(
            None,
            description="With `openenv_port`: the task rows, a split for each file; by default the declared datasets.",
        )

    return ConfigCommand(
        name="ng_run",
        summary="Start the servers of a configuration and keep them running until Ctrl-C.",
        example="ng_run '+config_paths=[configs/math.yaml]'",
        keys=RunCommandKeys,
        accepts_keys_of=("e2e_collect_rollouts",),
    )


def run(keys: Any, config: GlobalConfig, *, began: float, fork_server: ForkServer | None) -> int:
    """Serve until a signal arrives, and return the exit code."""
    import asyncio

    from nemo_gym.cli.command import ExitCode
    from nemo_gym.launch.reporting import Reporter
    from nemo_gym.launch.serving import prepare, require_servers, serve, stop_signals

    require_servers(config)
    # A function, because the live table replaces `sys.stdout`.
    reporter = Reporter(lambda: sys.stdout, as_json=keys.as_json)
    while_up: WhileUp | None = None if keys.as_json or not sys.stdout.isatty() else _draw
    if keys.openenv_port is not None:
        from nemo_gym.cli._openenv import prepare_openenv

        config, while_up = prepare_openenv(keys, config, reporter.announce)
    if config.data.get("dry_run"):
        prepare(config, reporter)
        return ExitCode.COMPLETE
    served = partial(serve, began=began, fork_server=fork_server, while_up=while_up, placement=keys.placement)

    async def serve_until_signalled() -> bool:
        with stop_signals() as stop:
            return await served(config, reporter, stop)

    if keys.placement == "inline":  # the servers run in this event loop
        from nemo_gym.cli.collect_rollouts import run_in_loop

        was_ready = run_in_loop(serve_until_signalled())
    else:
        was_ready = asyncio.run(serve_until_signalled())
    return ExitCode.COMPLETE if was_ready else ExitCode.INTERRUPTED


async def _draw(gym: RunningGym) -> None:
    # Imported after the servers have started, so that it does not delay them.
    from rich.console import Console

    from nemo_gym.launch.table import draw_until_cancelled

    await draw_until_cancelled(gym, Console())


def run_starting_servers(
    argv: Sequence[str] | None,
    command: Callable[[], ConfigCommand[Any]],
    act: Callable[..., int],
    *needed_next: str,
) -> NoReturn:
    """Run a command that starts servers, and exit with its code.

    `act` gets the command's keys, the configuration, the time at which it `began`, and the `fork_server`.
    """
    began = time.monotonic()
    arguments = sys.argv[1:] if argv is None else argv
    with early_fork_server(arguments) as fork_server, collected_rarely():
        start = NEEDED_TO_START if fork_server is not None else NEEDED_INLINE
        code = command().run(
            arguments,
            partial(act, began=began, fork_server=fork_server),
            fork_server=fork_server,
            needed_next=(*needed_next, *start),
        )
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> None:
    run_starting_servers(argv, command, run)
