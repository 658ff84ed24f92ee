"""A program on a terminal of a given width, and the screen that a person sees."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

ROWS = 50
PATIENCE_S = 180.0
"""Seconds after which a test fails because its screen did not come."""


class Terminal:
    """Leaving the `with` block interrupts the program and waits for its end."""

    def __init__(
        self, command: Sequence[str | Path], folder: Path, environment: dict[str, str], columns: int
    ) -> None:
        self._screen = pyte.Screen(columns, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._reader, terminal = pty.openpty()
        self._set_size(columns)
        kept = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**kept, "TERM": "xterm-256color"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self._thread = threading.Thread(target=self._read, name="terminal")
        self._thread.start()

    def lines(self) -> list[str]:
        """Return the lines of the screen, without trailing spaces and empty lines."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display if line.strip()]

    def wait_for(self, is_shown: Callable[[list[str]], bool]) -> list[str]:
        """Return the lines of the first screen that `is_shown` accepts."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not is_shown(lines := self.lines()):
            assert time.monotonic() < give_up_at, "\n".join(lines)
            time.sleep(0.02)
        return lines

    def wait_for_end(self) -> list[str]:
        """Wait until the program has ended, and return the last screen."""
        self._process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        return self.lines()

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def resize(self, columns: int) -> None:
        """Give the terminal another width, as a person does who drags its window."""
        with self._lock:
            self._screen.resize(ROWS, columns)
            self._screen.reset()
        self._set_size(columns)
        self._process.send_signal(signal.SIGWINCH)

    def _set_size(self, columns: int) -> None:
        fcntl.ioctl(self._reader, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._reader, 65536)
            except OSError:  # Linux reports the end of a terminal as an error
                break
            if not part:
                break
            with self._lock:
                self._stream.feed(part)
        os.close(self._reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self.wait_for_end()
