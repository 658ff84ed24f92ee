"""A child just forked from the zygote, and its way to being a server."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.launch import kernel
from nemo_gym.launch.births import BOOTSTRAP_FD, Birth
from nemo_gym.launch.script import run_script
from nemo_gym.servers.bootstrap import BOOTSTRAP_FD_VARIABLE

HANDLED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)
"""What the zygote handles; blocked from before the fork until the child has its own dispositions."""
_ABOVE_FIXED_NUMBERS = 64
_SCRIPT_RUNNER = str(Path(__file__).with_name("script.py"))


@dataclass(frozen=True, slots=True)
class Newborn:
    """What a forked child knows of itself."""

    birth: Birth
    descriptors: list[int]
    """Log file, bootstrap, listening sockets, as they were received."""
    parent_pid: int

    def run(self) -> None:
        """Leave everything of the zygote behind and run the server's file; returns when that does."""
        os.setsid()
        kernel.die_with_parent()
        if os.getppid() != self.parent_pid:
            os._exit(1)  # the zygote died before the kernel was told to watch it
        kernel.set_title(self.birth.title)
        self._take_descriptors()
        self._take_signals()
        os.environ.update(self.birth.variables or {})
        os.environ[BOOTSTRAP_FD_VARIABLE] = str(BOOTSTRAP_FD)
        if self.birth.python is not None:
            self._execute(self.birth.python)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        run_script(self.birth.script, self.birth.directory, self.birth.search_path)

    def _take_descriptors(self) -> None:
        """Put log, bootstrap and sockets at their fixed numbers and close everything else of the zygote's."""
        signal.set_wakeup_fd(-1)
        moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE_FIXED_NUMBERS) for fd in self.descriptors]
        for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
            if fd >= BOOTSTRAP_FD and fd not in moved:
                with contextlib.suppress(OSError):  # the listing's own, which is closed already
                    os.close(fd)
        log, *rest = moved
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number, descriptor in enumerate(rest, start=BOOTSTRAP_FD):
            os.dup2(descriptor, number)
        for descriptor in moved:
            os.close(descriptor)

    def _take_signals(self) -> None:
        for number in HANDLED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)

    def _execute(self, python: str) -> None:
        birth = self.birth
        script = [str(self.parent_pid), birth.directory, birth.script, *birth.search_path]
        with contextlib.suppress(KeyError):
            del os.environ["VIRTUAL_ENV"]
        os.execve(python, [python, "-P", _SCRIPT_RUNNER, *script], {**os.environ, "PYTHONUNBUFFERED": "1"})
