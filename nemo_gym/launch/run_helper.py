"""`RunHelper`: a gym embedded in a trainer.

helper = RunHelper()
helper.start(GlobalConfigDictParserConfig(initial_global_config_dict={...}, skip_load_from_cli=True))
...
helper.poll()      # raises if a server has failed
helper.shutdown()
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

from nemo_gym.failures import Failure
from nemo_gym.launch.early_start import start_fork_server
from nemo_gym.launch.errors import LaunchError
from nemo_gym.processes import messages
from nemo_gym.processes.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nemo_gym.config.current import GlobalConfigDictParserConfig
    from nemo_gym.config.options import Inspection
    from nemo_gym.config.servers import ServerInstance
    from nemo_gym.launch._host import Ready

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 5.0
POLL_PAUSE_S = 1.0
_Answer = TypeVar("_Answer")


class RunHelper:
    """Starts the servers of a configuration and supervises them in a separate process."""

    def __init__(self) -> None:
        self._program: Program | None = None
        self.head_url: str | None = None

    def start(self, global_config_dict_parser_config: GlobalConfigDictParserConfig | None = None) -> None:
        """Start the servers and return when all of them answer. The key `placement` is as of `ng_run`.

        Afterwards `get_global_config_dict()` returns the configuration with every address and the run's token.
        Raises `ConfigErrors` for an invalid configuration, `LaunchError` for servers that do not start.
        """
        if self._program is not None:
            raise LaunchError(
                "this RunHelper already runs a gym", code="already_running", remedy="Use another one."
            )
        # The process preloads while the configuration is read here.
        self._program = Program(f"{__name__}:run_host", grace_s=SHUTDOWN_TIMEOUT_S)
        try:
            ready = _hand_over(self._program, global_config_dict_parser_config)
        except BaseException:
            self.shutdown()
            raise
        from nemo_gym.config.current import set_global_config_dict

        self.head_url = ready.head_url
        set_global_config_dict({**ready.config, "run_token": ready.token})

    def poll(self) -> None:
        """Raise `LaunchError` if the gym has ended."""
        if self._program is None:
            raise LaunchError("this RunHelper runs no gym", code="not_running", remedy="Call start first.")
        if self._program.process.poll() is not None:
            raise _build_end_error(self._program)

    def shutdown(self) -> None:
        """End every server and wait until all have ended, up to `SHUTDOWN_TIMEOUT_S`. Idempotent."""
        program, self._program = self._program, None
        if program is not None:
            program.close()

    def run_forever(self) -> None:
        """Wait until Ctrl-C, then shut down and return; raise `LaunchError` if a server fails."""
        try:
            while True:
                self.poll()
                time.sleep(POLL_PAUSE_S)
        except KeyboardInterrupt:
            log.info("interrupted")
        finally:
            self.shutdown()


def run_host(channel: socket.socket) -> None:
    """In the separate process: start the fork server before other imports, then host a gym."""
    with contextlib.closing(start_fork_server()) as fork_server:
        from nemo_gym.launch._host import main

        main(channel, fork_server)


def _hand_over(program: Program, parser_config: GlobalConfigDictParserConfig | None) -> Ready:
    """Load the configuration, send it to the process, and wait until its servers are ready."""
    from nemo_gym.config.current import GlobalConfigDictParser
    from nemo_gym.launch._host import EmbeddedKeys, InspectionRequest, Order, Ready

    def inspect(servers: Sequence[ServerInstance], data: Mapping[str, Any]) -> Mapping[str, Inspection]:
        return _ask(program, InspectionRequest(servers, data), dict)

    config = GlobalConfigDictParser().load(parser_config, command_keys=EmbeddedKeys, inspect=inspect)
    for warning in config.warnings:
        log.warning("%s", warning)
    keys = cast(EmbeddedKeys, config.command_keys)
    return _ask(program, Order(config, keys.placement), Ready)


def _ask(program: Program, message: object, answer: type[_Answer]) -> _Answer:
    """Send a message to the process and return its answer. Raises `LaunchError` if it answers otherwise or ends."""
    with contextlib.suppress(BrokenPipeError):  # the reason of its end is read below
        program.send(message)
    received = _receive(program)
    if not isinstance(received, answer):
        raise _build_end_error(program, received)
    return received


def _receive(program: Program) -> Any:
    """Receive a message of the process; None if it ended without one."""
    with contextlib.suppress(EOFError):
        return messages.receive(program.channel)
    return None


def _build_end_error(program: Program, message: Failure | None = None) -> LaunchError:
    failure = message or _receive(program)
    if isinstance(failure, Failure):
        error = LaunchError(failure.message, code=failure.code)
        error.failure = failure
        return error
    return LaunchError(
        f"the process that supervises the servers has ended (exit code {program.process.wait()})",
        code="host_gone",
        remedy="Its last messages are on stderr.",
    )
