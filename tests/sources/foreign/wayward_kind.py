"""A kind of environments that break the protocol: each step does what its text says. Hosts load this file."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def build(name: str, options: dict[str, Any]) -> Wayward:
    if name == "unknown":
        raise LookupError("there is no such environment")
    if name == "slow_start":
        time.sleep(3600)
    return Wayward(name, options)


def write_raw(data: bytes) -> None:
    """Write to the channel, whose descriptor an environment has to guess."""
    for descriptor in range(3, 32):
        try:
            if str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith("pipe:"):
                while data:
                    data = data[os.write(descriptor, data) :]
                return
        except OSError:
            continue


def find_request() -> int:
    """Return the number of the request that is being answered."""
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    number: int = frame.f_locals["request"]["id"]
    return number


class Wayward:
    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self._name = name
        self._options = options

    def describe(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "version": "1",
            "digest": "d" * 64,
            "loop": "ours",
            "seats": [{"name": str(seat)} for seat in range(2 if self._name == "match" else 1)],
            "rewards": [{"name": "reward"}],
            "license": "MIT",
            "source": "https://example.org/wayward",
        }

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]:
        end = min(cursor + limit, 5)
        tasks = [
            {"id": f"{self._name}/{index}", "prompt": "Act.", "data": {"seed": index}}
            for index in range(cursor, end)
        ]
        return {"tasks": tasks, "cursor": end if end < 5 else None}

    def open(self, task: dict[str, Any], seed: int) -> dict[str, Any]:
        self._steps = 0
        if self._name == "match":
            return {"seat": 1, "observation": "the other seat begins"}
        return {"seat": 0, "observation": f"seed {seed}"}

    def close(self) -> dict[str, Any]:
        return {}

    def step(self, seat: int, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        self._steps += 1
        if self._name == "match":
            return self._move(seat, text)
        action = getattr(self, f"do_{text}", None)
        answer = action() if action is not None else None
        return answer or {"seat": 0, "observation": text, "done": text == "finish", "reward": 1.0}

    def _move(self, seat: int, text: str) -> dict[str, Any]:
        if text == "forfeit" or self._steps == 4:
            rewards = {"0": 1.0, "1": -1.0}
            infos = {str(each): {"invalid_move": text == "forfeit", "reason": "over"} for each in (0, 1)}
            return {"done": True, "rewards": rewards, "infos": infos}
        return {"seat": 1 - seat, "observation": f"seat {seat} said {text}", "done": False}

    def do_call(self) -> dict[str, Any]:
        return {"observation": None, "done": False, "reward": None}

    def do_end(self) -> dict[str, Any]:
        return {"observation": None, "done": True, "reward": None}

    def do_print(self) -> None:
        sys.stdout.write("a game prints\n")
        os.write(1, b"and its library writes\n")

    def do_garbage(self) -> None:
        write_raw(b"this is no message\n")

    def do_other_version(self) -> None:
        write_raw(b'{"v": 2, "id": 1, "type": "result"}\n')

    def do_flood(self) -> None:
        write_raw(b"x" * (17 << 20) + b"\n")

    def do_long_answer(self) -> dict[str, Any]:
        return {"observation": "x" * (17 << 20)}

    def do_half(self) -> None:
        write_raw(b'{"v": 1, "id"')
        os._exit(3)

    def do_twice(self) -> None:
        answer = {"v": 1, "id": find_request(), "type": "result", "observation": "", "reward": 1.0}
        write_raw(2 * (json.dumps(answer).encode() + b"\n"))

    def do_stop(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def do_nan(self) -> dict[str, Any]:
        return {"reward": float("nan")}

    def do_raw_nan(self) -> None:
        write_raw(b'{"v": 1, "id": %d, "type": "result", "reward": NaN}\n' % find_request())

    def do_text_reward(self) -> dict[str, Any]:
        return {"reward": "a good move", "done": True}

    def do_list_of_rewards(self) -> dict[str, Any]:
        return {"rewards": [1.0], "done": True}

    def do_fork(self) -> None:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(3600)

    def do_ignore_signals(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        while True:
            time.sleep(3600)

    def do_sleep(self) -> None:
        time.sleep(3600)

    def do_die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_leave(self) -> None:
        sys.exit(7)

    def do_raise(self) -> None:
        raise ZeroDivisionError("a bug of the environment")

    def do_fill_memory(self) -> None:
        held = []
        while True:
            held.append(b"x" * (64 << 20))
