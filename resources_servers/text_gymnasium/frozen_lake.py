"""Maps for FrozenLake and their shortest paths."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}


def shortest_way(rows: Sequence[str]) -> list[str] | None:
    """Return the fewest moves from start to goal on a map that is not slippery; None when the goal is unreachable."""
    start = next((y, row.index("S")) for y, row in enumerate(rows) if "S" in row)
    ways: dict[tuple[int, int], list[str]] = {start: []}
    reached = deque([start])
    while reached:
        place = reached.popleft()
        if rows[place[0]][place[1]] == "G":
            return ways[place]
        for move, (down, right) in MOVES.items():
            y, x = place[0] + down, place[1] + right
            is_inside = 0 <= y < len(rows) and 0 <= x < len(rows[0])
            if is_inside and rows[y][x] != "H" and (y, x) not in ways:
                ways[y, x] = [*ways[place], move]
                reached.append((y, x))
    return None


def draw_map(size: int, rng: random.Random) -> list[str]:
    """Draw a solvable map with start and goal in opposite corners."""
    while True:
        cells = [["H" if rng.random() < 0.25 else "F" for _ in range(size)] for _ in range(size)]
        cells[0][0], cells[-1][-1] = "S", "G"
        rows = ["".join(row) for row in cells]
        if shortest_way(rows) is not None:
            return rows
