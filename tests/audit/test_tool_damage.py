from __future__ import annotations

from typing import Any

from nemo_gym.audit.request_words import RequestWords
from nemo_gym.audit.tool_damage import Bystanders
from nemo_gym.sources.tool_tasks import ScriptCall

START: dict[str, Any] = {
    "shifts": [
        {"id": "S1", "day": "Monday", "members": ["V2"]},
        {"id": "S2", "day": "Friday", "members": []},
    ],
    "volunteers": [{"id": "V1", "health_status": "good"}, {"id": "V2", "health_status": "ill"}],
}
FINAL: dict[str, Any] = {**START, "shifts": [START["shifts"][0], {**START["shifts"][1], "members": ["V1"]}]}
GOLD = [ScriptCall("assign", {"volunteer_id": "V1", "shift_id": "S2"})]


def build_bystanders(request: str = "Put V1 on the Friday shift.") -> Bystanders:
    return Bystanders(START, FINAL, GOLD, RequestWords(request))


def test_what_the_gold_script_and_the_request_name_is_no_bystander() -> None:
    assert build_bystanders().keys == {("shifts", "S1"), ("volunteers", "V2")}
    assert build_bystanders("Put V1 on a shift. Keep V2.").keys == {("shifts", "S1")}


def test_a_call_names_a_bystander_and_what_is_linked_with_it() -> None:
    def remove(self: object, volunteer_id: str, shift_id: str) -> None: ...

    calls = list(build_bystanders().make_calls("remove", remove))
    assert ScriptCall("remove", {"shift_id": "S1", "volunteer_id": "V2"}) in calls


def test_a_call_gives_a_field_another_of_its_values() -> None:
    def update(self: object, volunteer_id: str, new_status: str) -> None: ...

    assert list(build_bystanders().make_calls("update", update)) == [
        ScriptCall("update", {"volunteer_id": "V2", "new_status": "good"})
    ]


def test_a_tool_without_an_id_gets_no_call() -> None:
    def report(self: object, day: str) -> None: ...

    assert list(build_bystanders().make_calls("report", report)) == []


def test_damage_of_something_related_does_not_count() -> None:
    bystanders = build_bystanders()
    harmed = {**FINAL, "volunteers": [START["volunteers"][0]]}
    assert bystanders.list_damaged(harmed) == [("volunteers", "V2")]
    assert bystanders.list_damaged({**harmed, "shifts": []}) == []
