"""TextArena's own loop, run by an interpreter that has it: prints what each game of a list comes to.

python native_textarena.py '{"games": null, "seeds": [0, 1, 2], "most": 60, "long": false}'
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import textarena
from moves import LONG, choose, digest
from textarena.envs.registration import ENV_REGISTRY


class Slow(BaseException):
    pass


def stop(number, frame):
    raise Slow


def find_players(name):
    for players in range(1, 11):
        try:
            game = textarena.make(name)
            game.reset(num_players=players, seed=0)
            if (players == 1) == (type(game.state).__name__ == "SinglePlayerState"):
                return players
        except Exception:
            continue
    return None


def list_games():
    """One game of each class, by the shortest name."""
    names = {}
    for name, spec in ENV_REGISTRY.items():
        if not name.endswith(("-train", "-raw")):
            names.setdefault(str(spec.entry_point), []).append(name)
    return [min(each, key=lambda name: (len(name), name)) for each in names.values()]


def play(name, players, seed, most, is_long):
    random.seed(seed)
    game = textarena.make(name)
    game.reset(num_players=players, seed=seed)
    transcript, rewards = [], None
    for move in range(most):
        seat, text = game.get_observation()
        action = LONG[name](text, seed, move) if is_long else choose(text, seed, move)
        transcript.append([seat, text, action])
        done, _ = game.step(action)
        if done:
            rewards, _ = game.close()
            break
    told = None if rewards is None else {str(seat): value for seat, value in rewards.items()}
    return {"hash": digest(transcript), "moves": len(transcript), "rewards": told}


def main(given):
    signal.signal(signal.SIGALRM, stop)
    found = {}
    for name in given["games"] or list_games():
        found[name] = {"players": None, "seeds": {}}
        signal.alarm(60)
        try:
            players = found[name]["players"] = find_players(name)
            for seed in given["seeds"] if players else ():
                signal.alarm(60)
                try:
                    found[name]["seeds"][str(seed)] = play(name, players, seed, given["most"], given["long"])
                except Exception as error:
                    found[name]["seeds"][str(seed)] = {"error": f"{type(error).__name__}: {error}"}
        except Slow:
            found[name]["slow"] = True
        signal.alarm(0)
    return found


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        result = main(json.loads(sys.argv[1]))
    print(json.dumps(result))
