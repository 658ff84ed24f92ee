"""A server of the viewer, a page of it, and what both take."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from nemo_gym import PARENT_DIR
from tests.browser.visits import Visit

STOP_TIMEOUT_S = 30
WAIT_MS = 600_000
"""The patience of the page: no measurement fails because it is slow."""


@dataclass
class Report:
    """The figures so far, and the answers that differ from those of Python."""

    figures: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def note(self, group: int, name: str, value: float, unit: str, goal: float | None = None) -> None:
        figure = {"group": group, "name": name, "value": round(value, 3), "unit": unit, "goal": goal}
        self.figures.append(figure)
        limit = "" if goal is None else f"  (goal {goal:g}{'' if value <= goal else ', missed'})"
        print(f"{group:>2}  {name:<66} {value:>12,.3f} {unit}{limit}", flush=True)

    def time(self, group: int, name: str, seconds: Sequence[float], goal: float | None = None) -> None:
        """Note the median of times."""
        label = f"{name}, median of {len(seconds)}" if len(seconds) > 1 else name
        self.note(group, label, median(seconds), "s", goal)

    def check(self, group: int, name: str, found: object, expected: object) -> None:
        if found == expected:
            print(f"{group:>2}  {name:<66} {'as expected':>12}", flush=True)
            return
        self.wrong.append(f"{group}: {name}: {str(found)[:300]} instead of {str(expected)[:300]}")
        print(f"WRONG {self.wrong[-1]}", flush=True)


@dataclass(frozen=True)
class Served:
    """A running viewer."""

    address: str
    pid: int

    @property
    def memory_mb(self) -> float:
        """The memory of the server without that of its workers."""
        return private_mb(self.pid)


@contextmanager
def served(*places: Path) -> Iterator[Served]:
    """Serve runs in a process of its own."""
    listed = ",".join(map(str, places))
    command = [sys.executable, "-m", "nemo_gym.cli.view", f"+places=[{listed}]", "+json=true"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PARENT_DIR) as process:
        assert process.stdout is not None
        try:
            address = json.loads(process.stdout.readline())["url"].split("#")[
                0
            ]  # that of one file names its run
            yield Served(address, process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)


@contextmanager
def visiting(browser: Any) -> Iterator[Visit]:
    """Yield a page in a context of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    visit = Visit(context)
    visit.page.set_default_timeout(WAIT_MS)
    yield visit
    context.close()


def opened(visit: Visit, address: str, link: str, selector: str) -> float:
    """Open a link of a viewer as a user does, and return the seconds until `selector` is shown."""
    began = time.perf_counter()
    visit.page.goto(f"{address}{link}", wait_until="commit")
    visit.page.locator(selector).first.wait_for()
    seconds = time.perf_counter() - began
    visit.note_origin(address)
    return seconds


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def wait_for_count(visit: Visit, count: int, total: int) -> None:
    visit.wait_for(f"{count:,} of {total:,}", ".count")


def renderer_mb() -> float:
    """Return the private memory of the largest page process of a Chromium that this process started."""
    return max((private_mb(pid) for pid in _descendants() if "--type=renderer" in _command(pid)), default=0.0)


def private_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _descendants() -> Iterator[int]:
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    known = {int(Path("/proc/self").resolve().name)}
    for _ in range(len(parents)):
        found = {pid for pid, parent in parents.items() if parent in known} - known
        if not found:
            break
        known |= found
    return iter(known)


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
