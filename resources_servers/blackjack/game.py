"""One hand of blackjack against the dealer, from an endless deck. The seed determines every card."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

RANKS = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A")
_DEALER_STANDS_AT = 17
_MOST = 21


def value_of(hand: Sequence[str]) -> int:
    """Return the value of a hand: faces are 10, an ace is 11 unless that busts the hand, else 1."""
    total = sum(1 if rank == "A" else 10 if rank in ("J", "Q", "K") else int(rank) for rank in hand)
    return total + 10 if "A" in hand and total + 10 <= _MOST else total


@dataclass(slots=True)
class Game:
    """The state of a hand: the player draws first, then the dealer, who draws up to 17."""

    seed: int | str | None = None
    player: list[str] = field(default_factory=list)
    dealer: list[str] = field(default_factory=list)
    _deck: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._deck = random.Random(self.seed)
        self.player = [self._draw(), self._draw()]
        self.dealer = [self._draw(), self._draw()]

    def _draw(self) -> str:
        return self._deck.choice(RANKS)

    def hit(self) -> bool:
        """Draw a card for the player and return whether the hand is bust."""
        self.player.append(self._draw())
        return value_of(self.player) > _MOST

    def stand(self) -> float:
        """Play the dealer's hand and return 1 for a win, 0 for a draw, -1 for a loss."""
        while value_of(self.dealer) < _DEALER_STANDS_AT:
            self.dealer.append(self._draw())
        mine, theirs = value_of(self.player), value_of(self.dealer)
        return 1.0 if theirs > _MOST or mine > theirs else 0.0 if mine == theirs else -1.0


class BestPlay(NamedTuple):
    """The best reward of a hand and the number of hits before standing."""

    reward: float
    hits: int


def best_play(seed: int | str) -> BestPlay:
    """Return the best play of a player with full knowledge of the deck."""
    best = BestPlay(-1.0, 0)
    hits = 0
    while True:
        game = Game(seed)
        if any(game.hit() for _ in range(hits)):
            return best
        reward = game.stand()
        if reward > best.reward:
            best = BestPlay(reward, hits)
        hits += 1
