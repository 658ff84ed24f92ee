from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.audit.outcomes import Conclusion
from nemo_gym.audit.tool_audit import audit_tool_tasks
from nemo_gym.audit.tool_scripts import AGAIN, DAMAGE, GOLD, IMPOSSIBLE, OMISSION, probe_tool_task
from nemo_gym.sources.tool_tasks import read_tool_tasks
from tests.audit.tool_task_folders import BLIND, write_rink

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "data" / "task_folders"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS} has no published tool tasks")


def count(outcomes: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((each["kind"], str(each["conclusion"])) for each in outcomes)


def test_a_verifier_without_a_fault_is_accused_of_nothing(tmp_path: Path) -> None:
    found = count(probe_tool_task(str(write_rink(tmp_path / "rink")), 0))
    assert {conclusion for _, conclusion in found} == {"right"}
    assert found[OMISSION, "right"] == 2
    assert found[DAMAGE, "right"] >= 2
    assert found[IMPOSSIBLE, "right"] == 1


def test_a_blind_verifier_is_found_at_what_it_does_not_see(tmp_path: Path) -> None:
    outcomes = probe_tool_task(str(write_rink(tmp_path / "rink", BLIND)), 0)
    found = count(outcomes)
    assert found[OMISSION, "false accept"] == 1
    assert found[DAMAGE, "false accept"] == 2
    omission = next(each for each in outcomes if each["conclusion"] == "false accept")
    assert omission["kind"] == DAMAGE
    assert "which the request does not name" in omission["reason"]


def test_a_verifier_that_accepts_what_cannot_be_done_is_found(tmp_path: Path) -> None:
    vacuous = """
def verify(db):
    return float(len(db.rentals) == 1 and all(each.booked == 6 for each in db.sessions if each.id == "S-2"))
"""
    outcomes = probe_tool_task(str(write_rink(tmp_path / "rink", vacuous)), 0)
    [impossible] = [each for each in outcomes if each["kind"] == IMPOSSIBLE]
    assert (impossible["conclusion"], impossible["probe"]) == ("false accept", "S-2 of sessions")


def test_a_gold_script_that_fails_is_all_that_is_said(tmp_path: Path) -> None:
    never = "def verify(db):\n    return 0.0\n"
    found = count(probe_tool_task(str(write_rink(tmp_path / "rink", never)), 0))
    assert found[GOLD, "false reject"] == 1
    assert not any(kind == OMISSION for kind, _ in found)


def test_a_verifier_that_raises_has_no_verdict(tmp_path: Path) -> None:
    raising = "def verify(db):\n    raise KeyError('x')\n"
    found = count(probe_tool_task(str(write_rink(tmp_path / "rink", raising)), 0))
    assert set(found) <= {(kind, "failed") for kind, _ in found}


def test_a_reward_that_depends_on_the_hash_seed_is_found(tmp_path: Path) -> None:
    flaky = "def verify(db):\n    return float(len(db.rentals) == 1 and hash('taste') % 3 > 0) or 0.0\n"
    outcomes = probe_tool_task(str(write_rink(tmp_path / "rink", flaky)), 0)
    again = [each for each in outcomes if each["kind"] == AGAIN]
    gold = next(each for each in outcomes if each["kind"] == GOLD)
    assert gold["conclusion"] == "false reject" or [each["conclusion"] for each in again] == ["false reject"]


@needs_corpus
async def test_the_published_tasks_are_judged_as_by_reading(tmp_path: Path) -> None:
    """Each false accept read by hand is found, no redundant call is accused, and the flake and the damage are found."""
    labels = json.loads((CORPUS / "probes.json").read_text())
    tasks = read_tool_tasks(CORPUS / "tool_tasks")
    await audit_tool_tasks(
        "tool_tasks", tasks, tmp_path, seed=0, resume=False
    )  # in a process with a hash seed
    accused: Counter[tuple[str, str]] = Counter()
    for line in (tmp_path / "outcomes.jsonl").read_text().splitlines()[1:]:
        record = json.loads(line)
        name, outcomes, entry = record["task"], record["outcomes"], labels[record["task"]]
        omissions = {
            each["place"]: Conclusion(each["conclusion"]) for each in outcomes if each["kind"] == OMISSION
        }
        found = [
            place for place, conclusion in sorted(omissions.items()) if conclusion is not Conclusion.RIGHT
        ]
        assert found == entry["accepted_without_call"], name
        for label, places in entry.get("calls_by_label", {}).items():
            accused.update((label, omissions[place].value) for place in places)
        flakes = [each for each in outcomes if each["kind"] == AGAIN and each["conclusion"] == "false reject"]
        assert bool(flakes) == (name == "brewery_t2"), name
        if name in labels["_extra_call"]["cases"]:
            damaging = labels["_extra_call"]["cases"][name]["call"][0]
            damage = [
                each for each in outcomes if each["kind"] == DAMAGE and each["conclusion"] == "false accept"
            ]
            assert any(each["probe"].startswith(damaging) for each in damage), name
    assert accused["redundant_call", "false accept"] == 0
    assert accused["false_accept", "false accept"] == 79
