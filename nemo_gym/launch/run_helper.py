"""`RunHelper`: how trainers embed a gym.

helper = RunHelper()
helper.start(GlobalConfigDictParserConfig(initial_global_config_dict={...}, skip_load_from_cli=True))
...
helper.poll()      # raises when a server is down for good
helper.shutdown()
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from nemo_gym import PARENT_DIR
from nemo_gym.failures import Failure
from nemo_gym.launch.errors import LaunchError

if TYPE_CHECKING:
    from nemo_gym.global_config import GlobalConfigDictParserConfig

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 5.0
POLL_PAUSE_S = 1.0
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from nemo_gym.launch.zygote_process import ZygoteProcess, is_supported; "
    "zygote = ZygoteProcess.start() if is_supported() else None; "
    "from nemo_gym.launch.host import main; main(zygote)"
)


class RunHelper:
    """Starts the servers of a configuration and watches over them from a process of their own."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.head_url: str | None = None

    def start(self, global_config_dict_parser_config: GlobalConfigDictParserConfig | None = None) -> None:
        """Start the servers and return when all of them answer.

        Afterwards `get_global_config_dict()` gives the configuration with every address and the run's token.
        Raises `ConfigErrors` for a configuration that cannot be used, `LaunchError` for servers that do not start.
        """
        if self._process is not None:
            raise LaunchError(
                "this RunHelper runs a gym already", code="already_running", remedy="Use another one."
            )
        # The process warms up while we read the configuration.
        self._process = _start_host()
        try:
            ready = self._hand_over(global_config_dict_parser_config)
        except BaseException:
            self.shutdown()
            raise
        from nemo_gym.global_config import set_global_config_dict

        self.head_url = ready["head"]
        set_global_config_dict({**ready["config"], "run_token": ready["token"]})

    def poll(self) -> None:
        """Raise `LaunchError` when the gym is no longer up."""
        if self._process is None:
            raise LaunchError("this RunHelper runs no gym", code="not_running", remedy="Call start first.")
        if self._process.poll() is not None:
            raise self._reason_of_end(self._process)

    def shutdown(self) -> None:
        """End every server and wait until all are gone, two seconds at most. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended by itself
            process.stdin.close()
        try:
            process.wait(SHUTDOWN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            log.warning("the gym does not stop; it is killed")
            process.kill()
            process.wait()
        process.stdout.close()

    def run_forever(self) -> None:
        """Return, with everything shut down, at Ctrl-C; raise when a server is down for good."""
        try:
            while True:
                self.poll()
                time.sleep(POLL_PAUSE_S)
        except KeyboardInterrupt:
            log.info("interrupted")
        finally:
            self.shutdown()

    def _hand_over(self, parser_config: GlobalConfigDictParserConfig | None) -> dict[str, Any]:
        """Read the configuration, hand it to the process, and wait until its servers are ready."""
        from nemo_gym.global_config import GlobalConfigDictParser
        from nemo_gym.launch.host import SentConfig
        from nemo_gym.launch.inspection import Inspector

        with Inspector() as inspector:
            config = GlobalConfigDictParser().load(parser_config, inspect=inspector.inspect)
        for warning in config.warnings:
            log.warning("%s", warning)
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # why it is gone is read below
            process.stdin.write(SentConfig.of(config).to_json().encode() + b"\n")
            process.stdin.flush()
        message = _parse(process.stdout.readline())
        if "ready" not in message:
            raise self._reason_of_end(process, message)
        ready: dict[str, Any] = message["ready"]
        return ready

    def _reason_of_end(
        self, process: subprocess.Popen[bytes], message: dict[str, Any] | None = None
    ) -> Exception:
        assert process.stdout is not None
        message = message or _parse(process.stdout.readline())
        failure = Failure.from_wire(message.get("failed"))
        if failure is not None:
            error = LaunchError(failure.message, code=failure.code)
            error.failure = failure
            return error
        return LaunchError(
            f"the process that keeps the servers is gone (exit code {process.wait()})",
            code="host_gone",
            remedy="Its last words are on stderr.",
        )


def _start_host() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(PARENT_DIR)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the program that embeds the gym
    )


def _parse(line: bytes) -> dict[str, Any]:
    """A message of the process; empty where it ended without one."""
    message: dict[str, Any] = json.loads(line) if line.strip() else {}
    return message
