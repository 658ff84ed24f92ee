from __future__ import annotations

from nemo_gym.audit.tool_entities import find_changes, find_texts, list_entities

BEFORE = {
    "rooms": [{"id": "R1", "name": "Blue Room"}, {"id": "R2", "name": "Red Room"}],
    "bookings": {"b": {"room_id": "R1", "notes": ["late", "x" * 90]}},
    "budget": 5,
}


def test_records_with_an_id_are_entities() -> None:
    assert [entity.key for entity in list_entities(BEFORE)] == [
        ("rooms", "R1"),
        ("rooms", "R2"),
        ("bookings", "R1"),
    ]
    assert list_entities(BEFORE)[0].find_words() == {"blue", "room"}


def test_a_changed_and_a_removed_entity_are_changes_and_a_new_one_is_none() -> None:
    after = {
        **BEFORE,
        "rooms": [{"id": "R2", "name": "Pink Room"}, {"id": "R3", "name": "Green Room"}],
    }
    assert find_changes(BEFORE, after) == {("rooms", "R1"), ("rooms", "R2")}
    assert find_changes(BEFORE, {**BEFORE, "budget": 4}) == set()
    assert find_changes(BEFORE, {**BEFORE, "rooms": None}) == {("rooms", "R1"), ("rooms", "R2")}


def test_texts_are_found_in_lists_and_objects() -> None:
    assert list(find_texts({"a": ["x", {"b": "y"}], "c": 1})) == ["x", "y"]
