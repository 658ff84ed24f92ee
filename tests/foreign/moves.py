"""Scripted players of TextArena's games. The standard library only: the native loop and ours import the same file."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_BRACKETED = re.compile(r"\[[^\[\]\n]{1,40}\]")
_LISTED = re.compile(r"(?:available|valid|legal|possible)[^\n:]*:((?:[^\n]*\n?){1,3})", re.IGNORECASE)
_NEITHER = ("[GAME]", "[Player", "[Moderator]")


def choose(text: str, seed: int, move: int) -> str:
    """Return an action that depends on what the seat has read alone: mostly one that the text offers."""
    number = int.from_bytes(hashlib.sha256(f"{seed} {move} {text}".encode()).digest()[:8], "big")
    listed = _LISTED.findall(text[-1500:])
    offered: list[str] = [each for part in listed[-1:] for each in _BRACKETED.findall(part)]
    if not offered:
        offered = _BRACKETED.findall(text)[-12:]
    offered = [each for each in offered if not each.startswith(_NEITHER)]
    if not offered or number % 16 == 0:
        return f"[{number % 9} {number // 9 % 9}]"
    return offered[number // 16 % len(offered)]


def play_nim(text: str, seed: int, move: int) -> str:
    piles = re.findall(r"pile (\d+): (\d+)", text)[-3:]
    pile, left = max(piles, key=lambda each: int(each[1]))
    return f"[{pile} {1 + (seed + move) % max(1, int(left) - 1)}]"


def play_digits(text: str, seed: int, move: int) -> str:
    number = seed * 31 + move * 7
    digits = sorted("123456", key=lambda digit: hashlib.sha256(f"{digit}{number}".encode()).digest())
    return f"[{' '.join(digits[:4])}]"


def play_guess(text: str, seed: int, move: int) -> str:
    return f"[{1 + (seed * 7 + move * 3) % 20}]"


def play_cells(text: str, seed: int, move: int) -> str:
    taken = len(re.findall(r"\[\d\]", text))
    return f"[{(seed + move * 5 + taken) % 9}]"


def play_directions(text: str, seed: int, move: int) -> str:
    return f"[{('up', 'left', 'down', 'right')[(seed + move) % 4]}]"


def play_arms(text: str, seed: int, move: int) -> str:
    colours = re.findall(r"'?\[?(red|blue|green|yellow|purple|orange|cyan|magenta|black|white)\b", text)
    return f"[{sorted(set(colours))[(seed + move) % len(set(colours))]}]" if colours else "[red]"


def play_cards(text: str, seed: int, move: int) -> str:
    return "[Hit]" if (seed + move) % 2 else "[Stand]"


def play_chips(text: str, seed: int, move: int) -> str:
    last = re.findall(r"available actions are: ([^\n]+)", text)
    offered = re.findall(r"\[(\w+)\]", last[-1]) if last else ["check"]
    return f"[{offered[(seed + move) % len(offered)]}]"


def play_dilemma(text: str, seed: int, move: int) -> str:
    return "[cooperate]" if (seed + move) % 3 else "[defect]"


def play_rock(text: str, seed: int, move: int) -> str:
    return f"[{('rock', 'paper', 'scissors')[(seed + move) % 3]}]"


def play_pennies(text: str, seed: int, move: int) -> str:
    return "[heads]" if (seed * 3 + move) % 2 else "[tails]"


def play_dice(text: str, seed: int, move: int) -> str:
    return "[roll]" if (seed + move) % 3 else "[hold]"


LONG = {
    "Nim-v0": play_nim,
    "Mastermind-v0": play_digits,
    "GuessTheNumber-v0": play_guess,
    "2048-v0": play_directions,
    "Bandit-v0": play_arms,
    "Blackjack-v0": play_cards,
    "KuhnPoker-v0": play_chips,
    "IteratedPrisonersDilemma-v0": play_dilemma,
    "IteratedRockPaperScissors-v0": play_rock,
    "IteratedMatchingPennies-v0": play_pennies,
    "PigDice-v0": play_dice,
    "TicTacToe-v0": play_cells,
}
"""Strategies that play on without illegal moves, for most of a game."""


def digest(transcript: list[Any]) -> str:
    return hashlib.sha256(json.dumps(transcript, sort_keys=True).encode()).hexdigest()
