"""TextArena's games through the host and by the loop of TextArena itself: same texts, moves, ends and rewards."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from nemo_gym.failures import GymError
from nemo_gym.sources.foreign.process import HostProcess, HostProgram
from tests.foreign.moves import LONG, choose, digest

pytestmark = pytest.mark.foreign

NATIVE = Path(__file__).with_name("native_textarena.py")
SEEDS = [0, 1, 2]
MOST = 60
STEP_S = 120.0
Found = dict[str, dict[str, Any]]


def play_natively(python: Path, games: list[str] | None, seeds: list[int], most: int, long: bool) -> Found:
    given = json.dumps({"games": games, "seeds": seeds, "most": most, "long": long})
    done = subprocess.run(
        [python, str(NATIVE), given],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    found: Found = json.loads(done.stdout)
    return found


async def play_game(host: HostProcess, name: str, seed: int, most: int, long: bool) -> dict[str, Any]:
    """Play one game, every seat by the script, with the texts that each seat has been shown put together."""
    shown: dict[int, str] = {}
    transcript: list[Any] = []
    moved = await host.ask("open", {"task": {"id": name, "data": {}}, "seed": seed}, deadline_s=STEP_S)
    for move in range(most):
        seat, news = moved["seat"], moved["observation"]
        shown[seat] = shown[seat] + news if moved["goes_on"] else news
        action = LONG[name](shown[seat], seed, move) if long else choose(shown[seat], seed, move)
        transcript.append([seat, shown[seat], action])
        try:
            moved = await host.ask("step", {"seat": seat, "text": action, "calls": []}, deadline_s=STEP_S)
        except GymError as error:
            return {"failure": error.failure.kind, "moves": len(transcript)}
        if moved["done"]:
            break
    await host.ask("close", {}, deadline_s=STEP_S)
    rewards = moved.get("rewards")
    return {"hash": digest(transcript), "moves": len(transcript), "rewards": rewards}


async def play_games(python: Path, native: Found, most: int, long: bool) -> Found:
    found: Found = {}
    for name, about in native.items():
        if not about["seeds"]:
            continue
        program = HostProgram("textarena", name, python)
        host = await HostProcess.start(program, program.build_runner())
        try:
            found[name] = {
                str(seed): await play_game(host, name, int(seed), most, long) for seed in about["seeds"]
            }
        finally:
            await host.close()
    return found


def compare(native: Found, ours: Found) -> list[str]:
    """Return what differs. A reward that is a text is a failure here; an error of a game is one in both."""
    differences = []
    for name, games in ours.items():
        for seed, game in games.items():
            theirs = native[name]["seeds"][seed]
            rewards = theirs.get("rewards")
            if rewards is not None and any(isinstance(value, str) for value in rewards.values()):
                expected: dict[str, Any] = {"failure": "verifier:bad_reward", "moves": theirs["moves"]}
            else:
                expected = theirs
            if game != expected:
                differences.append(f"{name}/{seed}: {expected} natively, {game} here")
    return differences


@pytest.fixture(scope="module")
def python(find_python: Callable[[str], Path]) -> Path:
    return find_python("textarena")


def test_every_game_goes_as_in_the_loop_of_its_authors(python: Path) -> None:
    native = play_natively(python, None, SEEDS, MOST, long=False)
    broken = {
        name for name, about in native.items() if any("error" in each for each in about["seeds"].values())
    }
    assert broken == {"CharacterConclave-v0"}
    playable = {name: about for name, about in native.items() if name not in broken}
    assert not [name for name, about in playable.items() if about.get("slow")]
    ours = asyncio.run(play_games(python, playable, MOST, long=False))
    assert len(ours) >= 75
    assert compare(playable, ours) == []


def test_long_legal_play_goes_as_in_the_loop_of_their_authors(python: Path) -> None:
    native = play_natively(python, list(LONG), SEEDS, 200, long=True)
    ours = asyncio.run(play_games(python, native, 200, long=True))
    assert compare(native, ours) == []
    longest = [max(game["moves"] for game in games.values()) for games in ours.values()]
    assert len([moves for moves in longest if moves >= 7]) >= 10


def test_another_process_and_hash_seed_play_the_same(python: Path) -> None:
    games = ["SecretMafia-v0", "Poker-v0", "ThreePlayerGOPS-v0", "Crusade-v0"]
    first = play_natively(python, games, [5], MOST, long=False)
    ours = asyncio.run(play_games(python, first, MOST, long=False))
    assert compare(first, ours) == []


def test_a_game_costs_little_cpu_beside_its_own(python: Path) -> None:
    """A hundred games, of the gym's process and of its host together: at most 10 ms each above the native loop."""
    games, name = 100, "IteratedRockPaperScissors-v0"
    source = (
        "import json, random, resource, sys; sys.path.insert(0, sys.argv[1])\n"
        "import native_textarena as native\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_utime\n"
        f"for seed in range({games}): native.play({name!r}, 2, seed, 200, True)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)"
    )
    native_s = float(subprocess.check_output([python, "-c", source, str(NATIVE.parent)], text=True))

    async def play_all() -> float:
        program = HostProgram("textarena", name, python)
        host = await HostProcess.start(program, program.build_runner())
        try:
            of_host = psutil.Process(host.pid).children(recursive=True)
            before = time.process_time() + sum(sum(each.cpu_times()[:2]) for each in of_host)
            for seed in range(games):
                await play_game(host, name, seed, 200, long=True)
            return time.process_time() + sum(sum(each.cpu_times()[:2]) for each in of_host) - before
        finally:
            await host.close()

    ours_s = asyncio.run(play_all())
    overhead_ms = (ours_s - native_s) / games * 1000
    print(f"a game: {native_s / games * 1000:.1f} ms natively, {ours_s / games * 1000:.1f} ms here")
    assert overhead_ms <= 10
