from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.failures import ConfigError
from nemo_gym.sources.tool_world import Snapshot, ToolWorld
from tests.audit.tool_task_folders import write_rink


def test_the_gold_script_reaches_the_reward_and_restoring_takes_it_away(tmp_path: Path) -> None:
    world = ToolWorld(write_rink(tmp_path / "rink"))
    start = Snapshot(world)
    world.call("book_session", {"session_id": "S-2", "count": 6})
    world.call("rent_helmets", {"count": 6})
    assert world.verify() == 1.0

    start.restore()

    assert world.verify() == 0.0
    assert start.find_changed() == set()


def test_a_tool_that_raises_answers_with_its_error(tmp_path: Path) -> None:
    world = ToolWorld(write_rink(tmp_path / "rink"))
    assert world.call("book_session", {"session_id": "S-9", "count": 1}).error == "ValueError: no session S-9"
    assert "unexpected keyword" in str(world.call("list_sessions", {"day": 1}).error)
    assert world.call("fly", {}).error == "there is no tool 'fly'"


def test_a_task_has_the_annotations_of_its_own_code(tmp_path: Path) -> None:
    reading = "def verify(db):\n    return float(TaskTools.__annotations__ == {'db': TaskDB})\n"
    assert ToolWorld(write_rink(tmp_path / "rink", reading)).verify() == 1.0


def test_a_read_changes_nothing(tmp_path: Path) -> None:
    world = ToolWorld(write_rink(tmp_path / "rink"))
    start = Snapshot(world)
    assert len(world.call("list_sessions", {}).output) == 3
    assert start.find_changed() == set()
    assert start.take_over() == []


def test_the_changed_parts_are_the_fields_that_a_call_changes(tmp_path: Path) -> None:
    world = ToolWorld(write_rink(tmp_path / "rink"))
    start = Snapshot(world)
    world.call("rent_helmets", {"count": 6})
    assert start.find_changed() == {"rentals"}
    assert world.dump_parts({"rentals"}) == {"rentals": [{"id": "R-1", "thing": "helmet", "logged": False}]}
    start.take_over()
    world.db.__dict__["rentals"][0].thing = "skate"
    assert start.find_changed() == {"rentals"}
    world.db.__dict__["rentals"] = []
    assert "" in start.find_changed()
    assert set(world.dump_parts({"", "rentals"})) == {"sessions", "rentals"}


_CALLS = st.lists(
    st.sampled_from(
        [
            ("book_session", {"session_id": "S-1", "count": 2}),
            ("book_session", {"session_id": "S-3", "count": 4}),
            ("rent_helmets", {"count": 1}),
            ("cancel_session", {"session_id": "S-2"}),
        ]
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(calls=_CALLS)
def test_going_back_passes_every_state_of_the_way_there(
    calls: list[tuple[str, dict[str, object]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = ToolWorld(write_rink(tmp_path_factory.mktemp("rinks") / "rink"))
    snapshot, states, undos = Snapshot(world), [], []
    for call in calls:
        states.append(world.db.model_dump())
        world.call(*call)
        undos.append(snapshot.take_over())

    for state, undo in zip(reversed(states), reversed(undos), strict=True):
        snapshot.go_back(undo)
        snapshot.restore()
        assert world.db.model_dump() == state


def test_variables_of_the_module_are_restored(tmp_path: Path) -> None:
    counting = "COUNT = []\ndef verify(db):\n    COUNT.append(1)\n    return float(len(COUNT))\n"
    world = ToolWorld(write_rink(tmp_path / "rink", counting))
    start = Snapshot(world)
    assert world.verify() == 1.0
    start.restore()
    assert world.verify() == 1.0


def test_code_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be loaded: ZeroDivisionError"):
        ToolWorld(write_rink(tmp_path / "a", "1 / 0"))
    with pytest.raises(ConfigError, match="verify"):
        ToolWorld(write_rink(tmp_path / "b", "pass"))


def test_another_hash_seed_can_be_tried_in_this_process(tmp_path: Path) -> None:
    world = ToolWorld(write_rink(tmp_path / "rink", "def verify(db):\n    return float(hash('a') % 1000)\n"))
    own = world.verify()
    salted = []
    for salt in range(1, 9):
        world.salt_hashes(salt)
        salted.append(world.verify())
    world.salt_hashes(0)
    assert len(set(salted)) > 4
    assert world.verify() == own
    assert world.has_chance
