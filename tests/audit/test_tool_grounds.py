from __future__ import annotations

import pytest

from nemo_gym.audit.request_words import RequestWords
from nemo_gym.audit.tool_grounds import OmissionGrounds
from nemo_gym.sources.tool_tasks import ScriptCall

WORDS = {"SZ-1": {"convent"}, "SZ-2": {"school"}, "I-1": {"green", "peas"}, "I-2": {"lamb"}, "I-3": {"soy"}}
FIELDS = {"P-1": {"capacity_mgd": 18.4, "flow": 9.7}}


def build_grounds(
    request: str, *calls: ScriptCall, accepted: tuple[int, ...], **more: object
) -> OmissionGrounds:
    return OmissionGrounds(RequestWords(request), calls, range(len(calls)), WORDS, FIELDS, accepted, **more)  # type: ignore[arg-type]


def add(ingredient: str) -> ScriptCall:
    return ScriptCall("add_ingredient", {"recipe_id": "REC", "ingredient_id": ingredient})


def test_the_only_call_about_a_thing_that_the_request_names_is_needed() -> None:
    grounds = build_grounds(
        "Lamb with peas. Soy if you have it.", add("I-1"), add("I-2"), add("I-3"), accepted=(0,)
    )
    assert "`peas`" in str(grounds.find(0))
    assert grounds.find(2) is None  # named under a condition
    assert "no words" in grounds.explain_doubt(2)


def test_calls_that_sum_up_to_a_stated_number_are_needed() -> None:
    calls = [ScriptCall("occupy", {"zone_id": zone, "people": 75}) for zone in ("SZ-1", "SZ-2")]
    assert "150" in str(build_grounds("Move 150 people.", *calls, accepted=(0, 1)).find(0))
    assert build_grounds("Move at least 150 people.", *calls, accepted=(0, 1)).find(0) is None


def test_a_share_of_what_the_request_wants_all_of_is_needed() -> None:
    calls = [ScriptCall("harvest_bed", {"bed_id": bed}) for bed in ("B1", "B2", "B3")]
    assert "any of 2" in str(build_grounds("Harvest every ready bed.", *calls, accepted=(0, 1)).find(0))
    assert build_grounds("Harvest a bed.", *calls, accepted=(0, 1)).find(0) is None
    assert build_grounds("Harvest every ready bed.", *calls, accepted=(0,)).find(0) is None


def test_a_tool_that_the_verifier_never_needs_is_needed_if_the_request_names_its_work() -> None:
    call = ScriptCall("rent_helmets", {"count": 6})
    request = "Book it. Helmets if you can."
    assert build_grounds(request, call, accepted=(0,)).find(0) is None
    found = build_grounds(request, call, accepted=(0,), unneeded_tools=["rent_helmets"]).find(0)
    assert "needs no call of rent_helmets" in str(found)


@pytest.mark.parametrize("value", [26, 26.0])
def test_a_stated_number_that_other_calls_must_set_is_needed(value: float) -> None:
    calls = [ScriptCall("set_heat", {"tank_id": tank, "degrees": value}) for tank in ("T1", "T2")]
    assert "states 26" in str(build_grounds("Heat them to 26 degrees.", *calls, accepted=(1,)).find(1))


def test_a_call_that_a_later_one_replaces_may_be_redundant() -> None:
    calls = [ScriptCall("submit", {"recipe_id": "I-1", "level": level}) for level in (3, 4)]
    grounds = build_grounds("Submit the peas.", *calls, accepted=(0,))
    assert grounds.find(0) is None
    assert "call 1 does the same again" in grounds.explain_doubt(0)


def test_a_call_without_which_the_end_state_is_the_same_may_be_redundant() -> None:
    grounds = build_grounds("Lamb with peas.", add("I-1"), accepted=(0,), unchanging={0})
    assert grounds.find(0) is None
    assert "end state is the same" in grounds.explain_doubt(0)


def test_one_of_a_stated_count_is_needed() -> None:
    calls = [ScriptCall("add_vet_record", {"animal_id": animal}) for animal in ("kito", "dash", "zara")]
    found = build_grounds("Settle all three, update their records.", *calls, accepted=(0,)).find(0)
    assert "all 3 of them" in str(found)
    for other in ("Settle all four, update their records.", "Settle three, update their records."):
        assert build_grounds(other, *calls, accepted=(0,)).find(0) is None


def test_a_stated_percentage_of_a_field_is_needed() -> None:
    call = ScriptCall("adjust_flow", {"pipeline_id": "P-1", "rate": 9.2})
    request = "If it fails, reduce the flow to 50% of capacity."
    assert "50%" in str(build_grounds(request, call, accepted=(0,)).find(0))
    assert build_grounds(request.replace("50", "40"), call, accepted=(0,)).find(0) is None
    assert build_grounds(request.replace("capacity", "its size"), call, accepted=(0,)).find(0) is None
