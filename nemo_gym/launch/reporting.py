"""Reports of a command while servers start, run and stop: lines for a person, or JSON objects for a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from nemo_gym.launch._states import ServerState
from nemo_gym.launch._supervisor import ServerEvent
from nemo_gym.launch.gym import RunningGym
from nemo_gym.paths import display_path
from nemo_gym.tables import fold_text, terminal_width


class Reporter:
    """Writes the events of a gym, one per line."""

    def __init__(self, stream: Callable[[], TextIO], *, as_json: bool = False) -> None:
        """`stream` is called for every line. `as_json` writes JSON objects, each with an `event`."""
        self._stream = stream
        self._as_json = as_json
        self._ready_once: set[tuple[str, int]] = set()

    def announce(self, line: str) -> None:
        """Report a line for the user."""
        self._write("note", line, text=line)

    def server_changed(self, event: ServerEvent, seconds: float) -> None:
        """Report the state of a server, `seconds` after the command began."""
        self._write("server", self._write_line(event, seconds), **asdict(event), seconds=round(seconds, 3))

    def still_waiting(self, servers: Sequence[str], seconds: float) -> None:
        """Report the servers that are still starting after `seconds`."""
        line = f"still starting after {seconds:.0f} s: {', '.join(servers)}"
        self._write("waiting", line, servers=list(servers), seconds=round(seconds, 3))

    def gym_ready(self, gym: RunningGym, seconds: float) -> None:
        """Report that all servers are ready after `seconds`."""
        facts = {"head": gym.head_url, "servers": dict(gym.addresses), "logs": str(gym.log_folder)}
        logs = display_path(gym.log_folder, Path.cwd())
        line = f"all {len(gym.servers)} servers are ready in {seconds:.1f} s; logs: {logs}"
        self._write("ready", line, seconds=round(seconds, 3), **facts)

    def gym_stopped(self, seconds: float) -> None:
        """Report that all servers have ended, `seconds` after the stop began."""
        self._write("stopped", f"stopped in {seconds:.1f} s", seconds=round(seconds, 3))

    def _write_line(self, event: ServerEvent, seconds: float) -> str | None:
        name = event.server if event.replica == 0 else f"{event.server} #{event.replica}"
        if event.state is ServerState.CRASHED:
            return f"died: {name} ({event.detail})"
        if event.state is not ServerState.READY:
            return None
        key = (event.server, event.replica)
        when = "again after" if key in self._ready_once else "in"
        self._ready_once.add(key)
        return f"ready {when} {seconds:.1f} s: {name} {event.url}"

    def _write(self, event: str, line: str | None, **facts: object) -> None:
        stream = self._stream()
        if self._as_json:
            stream.write(f"{json.dumps({'event': event, **facts})}\n")
        elif line is not None:
            stream.write(f"{fold_text(line, terminal_width(stream))}\n")
        stream.flush()
