from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.audit.quantities import miss_quantity

METRES = {"mm": 1, "cm": 10, "m": 1000, "km": 1_000_000}


@given(st.integers(-999, 999), st.sampled_from(sorted(METRES)))
def test_a_missed_length_is_another_length(number: int, unit: str) -> None:
    lengths = {}
    for kind, text in miss_quantity(f"{number} {unit}"):
        found, _, other = text.partition(" ")
        lengths[text] = int(found) * METRES[other]
        assert (other != unit) is (kind == "another unit")
    assert number * METRES[unit] not in lengths.values()
    assert len(lengths) == (3 if number else 1)


def test_a_number_without_a_known_unit_is_no_quantity() -> None:
    for text in ("84", "84 owls", "km", "9.20.7", "3 km and more"):
        assert list(miss_quantity(text)) == []
