"""The bugs that tasks are made of: where each is, how it shows, and random arguments for every function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

PROJECTS = Path(__file__).with_name("projects")

Arguments = Callable[[Random], list[Any]]


class Bug(NamedTuple):
    """A wrong piece of a source file."""

    kind: str
    function: str
    """The function that shows it, such as `ledger.money.split_evenly`."""
    right: str
    wrong: str
    symptom: str
    path: str | None = None
    """The file that has it; None for the function's own."""

    @property
    def file(self) -> str:
        return self.path or self.function.rpartition(".")[0].replace(".", "/") + ".py"

    @property
    def package(self) -> str:
        return self.function.partition(".")[0]


def files_of(package: str) -> dict[str, str]:
    """Return the right source files of a package, by path."""
    return {
        f"{package}/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted((PROJECTS / package).glob("*.py"))
    }


def _amount(random: Random) -> str:
    written = f"{random.randint(0, 5000):,}" + random.choice(
        ("", ".5", ".07", f".{random.randint(0, 99):02}")
    )
    return random.choice(("", "", "-")) + written


def _entries(random: Random) -> list[list[str]]:
    return [[random.choice(("cash", "rent", "food")), _amount(random)] for _ in range(random.randint(1, 7))]


def _spans(random: Random) -> list[list[int]]:
    starts = [random.randint(0, 60) for _ in range(random.randint(0, 6))]
    return [[start, start + random.choice((0, 5, 10, 20))] for start in starts]


def _text(random: Random) -> str:
    words = ("the", "gym", "keeps", "every", "token", "of", "a", "conversation", "The", "and", "scores", "it")
    return " ".join(random.choice(words) for _ in range(random.randint(0, 14)))


def _rows(random: Random) -> list[list[str]]:
    return [[_text(random)[:12] for _ in range(random.randint(1, 3))] for _ in range(random.randint(1, 5))]


def _stock(random: Random) -> dict[str, int]:
    return {item: random.randint(1, 9) for item in random.sample(("bolt", "gear", "nut", "rod"), 3)}


def _orders(random: Random) -> list[list[Any]]:
    people, items = ("Ana", "Bo", "Cy", "Di"), ("bolt", "gear", "nut", "rod")
    count = random.randint(1, 6)
    return [[random.choice(people), random.choice(items), random.randint(1, 6)] for _ in range(count)]


ARGUMENTS: Mapping[str, Arguments] = {
    "ledger.money.parse_amount": lambda random: [_amount(random)],
    "ledger.money.format_amount": lambda random: [random.choice((-1, 1)) * random.randint(0, 10**7)],
    "ledger.money.split_evenly": lambda random: [random.randint(0, 5000), random.randint(1, 9)],
    "ledger.accounts.balances": lambda random: [_entries(random)],
    "ledger.accounts.first_overdraft": lambda random: [_entries(random), random.choice(("0", "-100", "500"))],
    "spans.sets.merged": lambda random: [_spans(random)],
    "spans.sets.length": lambda random: [_spans(random)],
    "spans.sets.common": lambda random: [_spans(random), _spans(random)],
    "spans.planning.gaps": lambda random: [_spans(random), random.choice((0, 10, 25)), random.choice((30, 60, 90))],
    "spans.planning.first_slot": lambda random: [_spans(random), random.choice((5, 10, 20, 30)), 0, 90],
    "wordkit.lines.wrap": lambda random: [_text(random), random.randint(3, 20)],
    "wordkit.lines.shorten": lambda random: [_text(random), random.randint(4, 30)],
    "wordkit.lines.common_words": lambda random: [_text(random), random.randint(1, 4)],
    "wordkit.tables.aligned": lambda random: [_rows(random), random.randint(4, 12)],
    "wordkit.tables.grouped": lambda random: [_rows(random), random.randint(0, 2)],
    "stockroom.stock.after_moves": lambda random: [_stock(random), [order[1:] for order in _orders(random)]],
    "stockroom.stock.to_reorder": lambda random: [_stock(random), _stock(random)],
    "stockroom.orders.served": lambda random: [_stock(random), _orders(random)],
    "stockroom.orders.best_sellers": lambda random: [_orders(random), random.randint(1, 3)],
}  # fmt: skip
"""Function → its random arguments, as JSON."""

BUGS = (
    Bug(
        "off_by_one",
        "ledger.money.split_evenly",
        "number < rest",
        "number <= rest",
        "the parts of `split_evenly` add up to more than the amount",
    ),
    Bug(
        "missing_case",
        "ledger.money.parse_amount",
        '.replace(",", "")',
        "",
        "`parse_amount` fails for amounts with commas",
    ),
    Bug(
        "wrong_order",
        "ledger.money.parse_amount",
        '(cents + "00")[:2]',
        '("00" + cents)[-2:]',
        '`parse_amount` reads "12.5" as 12.05',
    ),
    Bug(
        "missing_case",
        "ledger.money.format_amount",
        "abs(cents), 100",
        "cents, 100",
        "`format_amount` is wrong for debts",
    ),
    Bug(
        "wrong_operator",
        "ledger.accounts.balances",
        "totals.get(account, 0) + parse_amount(amount)",
        "parse_amount(amount)",
        "`balances` forgets earlier entries of an account",
    ),
    Bug(
        "wrong_comparison",
        "ledger.accounts.first_overdraft",
        "total < lowest",
        "total > lowest",
        "`first_overdraft` reports accounts that are not overdrawn",
    ),
    Bug(
        "wrong_value",
        "ledger.accounts.balances",
        "{rest:02}",
        "{rest}",
        "`balances` shows 5.07 as 5.7",
        "ledger/money.py",
    ),
    Bug(
        "wrong_comparison",
        "spans.sets.merged",
        "start <= result[-1][1]",
        "start < result[-1][1]",
        "`merged` leaves spans apart that touch",
    ),
    Bug(
        "missing_case",
        "spans.sets.merged",
        "max(result[-1][1], end)",
        "end",
        "`merged` loses points where one span contains another",
    ),
    Bug("missing_step", "spans.sets.length", "in merged(spans)", "in spans", "`length` counts points twice"),
    Bug(
        "swapped",
        "spans.sets.common",
        "[max(one[0], other[0]), min(one[1], other[1])]",
        "[min(one[0], other[0]), max(one[1], other[1])]",
        "`common` returns points that only one set has",
    ),
    Bug(
        "off_by_one",
        "spans.planning.first_slot",
        "finish - begin >= minutes",
        "finish - begin > minutes",
        "`first_slot` misses slots that fit exactly",
    ),
    Bug(
        "missing_case",
        "spans.planning.gaps",
        "at = max(at, finish)",
        "at = finish",
        "`gaps` returns busy time where the day starts late",
    ),
    Bug(
        "off_by_one",
        "wordkit.lines.wrap",
        "len(lines[-1]) + 1 + len(word)",
        "len(lines[-1]) + len(word)",
        "lines of `wrap` are a character too long",
    ),
    Bug(
        "off_by_one",
        "wordkit.lines.shorten",
        "text[: width - 3]",
        "text[:width]",
        "`shorten` returns more than `width` characters",
    ),
    Bug(
        "wrong_order",
        "wordkit.lines.common_words",
        "(-words.count(word), word)",
        "(words.count(word), word)",
        "`common_words` returns the rarest words",
    ),
    Bug(
        "missing_case",
        "wordkit.tables.grouped",
        'row[column] if column < len(row) else ""',
        "row[column]",
        "`grouped` fails for short rows",
    ),
    Bug(
        "missing_step",
        "wordkit.tables.aligned",
        "len(text) <= width else",
        "len(text) < width else",
        "`aligned` cuts cells that fit",
        "wordkit/lines.py",
    ),
    Bug(
        "missing_case",
        "stockroom.stock.to_reorder",
        "stock.get(item, 0)",
        "stock[item]",
        "`to_reorder` fails for items that are sold out",
    ),
    Bug(
        "wrong_comparison",
        "stockroom.stock.to_reorder",
        "if pieces > 0",
        "if pieces >= 0",
        "`to_reorder` lists items that are not missing",
    ),
    Bug(
        "off_by_one",
        "stockroom.orders.served",
        ">= int(str(pieces))",
        "> int(str(pieces))",
        "`served` refuses an order for the last pieces",
    ),
    Bug(
        "missing_step",
        "stockroom.orders.served",
        "stock = after_moves(",
        "after_moves(",
        "`served` gives the same pieces to several customers",
    ),
    Bug(
        "wrong_order",
        "stockroom.orders.best_sellers",
        "(-ordered[item], item)",
        "item",
        "`best_sellers` ignores how many pieces were ordered",
    ),
)
