"""When values, rows and tables are equal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import permutations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from resources_servers.text_to_sql.sql_rows import (
    TOLERANCE,
    Cell,
    Row,
    are_same_in_any_order,
    is_same_cell,
    is_same_row,
)


def test_cells_are_compared_by_value_within_their_type() -> None:
    same: list[tuple[Cell, Cell]] = [
        (1, 1.0),
        (0.1 + 0.2, 0.3),
        ("a", "a"),
        (b"a", b"a"),
        (None, None),
        (10**17, 10**17),
        (3, 3.0000000000000004),
        (1_000_000.0, 1_000_000.5),
    ]
    other: list[tuple[Cell, Cell]] = [
        (1, 2),
        (1, "1"),
        ("a", b"a"),
        (None, 0),
        (None, ""),
        ("a", "A"),
        (0.3, 0.31),
        (10**17, 10**17 + 1),
        (1_000_000, 1_000_000.5),
        (1_000_001, 1_000_000.0),
    ]
    assert all(is_same_cell(left, right) for left, right in same)
    assert not any(is_same_cell(left, right) or is_same_cell(right, left) for left, right in other)


def test_integers_are_exact_however_large() -> None:
    large = 10**17
    assert are_same_in_any_order([(large,), (large + 1,)], [(large + 1,), (large,)])
    assert not are_same_in_any_order([(large,), (large + 1,)], [(large,), (large + 2,)])
    assert not are_same_in_any_order([(123456,), (1,)], [(123457,), (1,)])
    named = [(large + n, "a" if n % 2 else "b") for n in range(50)]
    assert are_same_in_any_order(named, named[::-1])
    assert not are_same_in_any_order(named, [*named[:-1], (large + 49, "b")])


def test_nearly_equal_numbers_meet_wherever_rounding_would_cut() -> None:
    just_below, just_above = 0.1234549999, 0.1234550001
    rows: list[Row] = [(just_below, "b"), (just_above, "a"), (None, b"x"), ("t", 1)]
    mirrored: list[Row] = [(just_above, "b"), (just_below, "a"), ("t", 1.0), (None, b"x")]
    assert are_same_in_any_order(rows, mirrored)
    assert not are_same_in_any_order(rows, [(0.1235, "b"), *mirrored[1:]])
    assert are_same_in_any_order([(float("inf"), 1), (2.0, 1)], [(2, 1), (float("inf"), 1)])


def test_a_row_gives_its_counterpart_up_to_one_that_has_no_other() -> None:
    step = 0.9 * TOLERANCE
    chain = [0.0, step, 2 * step]
    assert are_same_in_any_order([(x, 0.5) for x in chain], [(x + step, 0.5) for x in chain])
    assert not are_same_in_any_order([(x, 0.5) for x in chain], [(x + 3 * step, 0.5) for x in chain])
    crossed = [(0.0, 1.0 + step), (step, 1.0)]
    assert are_same_in_any_order(crossed, [(step, 1.0 + step), (0.0, 1.0)])


NEAR = st.sampled_from([0.0, 0.7 * TOLERANCE, 1.4 * TOLERANCE, 2.1 * TOLERANCE, 1, 1.0, 1 + TOLERANCE / 2])
CELLS = st.one_of(NEAR, st.sampled_from([None, "1", b"1", 10**17, 10**17 + 1, 1e17]))
TABLES = st.integers(1, 2).flatmap(
    lambda columns: st.lists(st.tuples(*[CELLS] * columns), min_size=0, max_size=5)
)


def can_be_paired_by_trying(expected: Sequence[Row], given: Sequence[Row]) -> bool:
    return any(all(map(is_same_row, expected, order)) for order in permutations(given))


@settings(max_examples=300)
@given(TABLES, st.randoms(use_true_random=False))
def test_tables_are_equal_where_some_order_makes_them_so(table: list[Row], random: Random) -> None:
    other = [tuple(moved(cell, random) for cell in row) for row in table]
    random.shuffle(other)
    assert are_same_in_any_order(table, other) == can_be_paired_by_trying(table, other)


def moved(cell: Cell, random: Random) -> Cell:
    if not isinstance(cell, int | float) or random.random() < 0.5:
        return cell
    return cell + random.choice([-0.8, 0.8, 1.7]) * TOLERANCE


def test_ten_thousand_rows_are_compared_in_time() -> None:
    random = Random(0)
    rows = [(random.random(), random.random(), "x") for _ in range(10_000)]
    nearly = [(a + 1e-9, b - 1e-9, c) for a, b, c in rows]
    start = time.process_time()
    assert are_same_in_any_order(rows, sorted(nearly))
    assert not are_same_in_any_order(rows, [*nearly[:-1], (0.5, 0.5, "x")])
    same_price = [(1.0, b, c) for _, b, c in rows]
    assert not are_same_in_any_order(same_price, [*same_price[:-1], (1.0, 7.0, "x")])
    assert time.process_time() - start < 20.0
