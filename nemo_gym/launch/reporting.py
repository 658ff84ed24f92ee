"""What a command says while servers start, run and stop: lines for a person, or JSON objects for a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Protocol, TextIO

from nemo_gym.launch._states import ServerState
from nemo_gym.launch._supervisor import ServerEvent
from nemo_gym.launch.gym import Gym


class Reporter(Protocol):
    """Hears of everything that happens to a gym."""

    def announce(self, line: str) -> None:
        """Something a person should know."""
        ...

    def server_changed(self, event: ServerEvent, seconds: float) -> None:
        """A server entered a state, `seconds` after the command began."""
        ...

    def still_waiting(self, servers: Sequence[str], seconds: float) -> None: ...

    def gym_ready(self, gym: Gym, seconds: float) -> None: ...

    def gym_stopped(self, seconds: float) -> None:
        """All servers are gone, `seconds` after they were asked to end."""
        ...


class LineReporter:
    """Lines for a person, or for a log."""

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        self._stream = stream
        self._ready_once: set[tuple[str, int]] = set()

    def announce(self, line: str) -> None:
        self._write(line)

    def server_changed(self, event: ServerEvent, seconds: float) -> None:
        name = event.server if event.replica == 0 else f"{event.server} #{event.replica}"
        if event.state is ServerState.READY:
            key = (event.server, event.replica)
            when = "again after" if key in self._ready_once else "in"
            self._ready_once.add(key)
            self._write(f"ready {when} {seconds:.1f} s: {name} {event.url}")
        elif event.state is ServerState.CRASHED:
            self._write(f"died: {name} ({event.detail})")

    def still_waiting(self, servers: Sequence[str], seconds: float) -> None:
        self._write(f"still starting after {seconds:.0f} s: {', '.join(servers)}")

    def gym_ready(self, gym: Gym, seconds: float) -> None:
        self._write(f"all {len(gym.servers)} servers are ready in {seconds:.1f} s; logs: {gym.log_folder}")

    def gym_stopped(self, seconds: float) -> None:
        self._write(f"stopped in {seconds:.1f} s")

    def _write(self, line: str) -> None:
        stream = self._stream()
        stream.write(f"{line}\n")
        stream.flush()


class JsonReporter:
    """One JSON object a line, each with an `event`."""

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        self._stream = stream

    def announce(self, line: str) -> None:
        self._write("note", {"text": line})

    def server_changed(self, event: ServerEvent, seconds: float) -> None:
        self._write("server", {**asdict(event), "seconds": round(seconds, 3)})

    def still_waiting(self, servers: Sequence[str], seconds: float) -> None:
        self._write("waiting", {"servers": list(servers), "seconds": round(seconds, 3)})

    def gym_ready(self, gym: Gym, seconds: float) -> None:
        facts = {"head": gym.head_url, "servers": dict(gym.addresses), "logs": str(gym.log_folder)}
        self._write("ready", {"seconds": round(seconds, 3), **facts})

    def gym_stopped(self, seconds: float) -> None:
        self._write("stopped", {"seconds": round(seconds, 3)})

    def _write(self, event: str, facts: Mapping[str, object]) -> None:
        stream = self._stream()
        stream.write(json.dumps({"event": event, **facts}) + "\n")
        stream.flush()
