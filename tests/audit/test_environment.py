from __future__ import annotations

from pathlib import Path

from nemo_gym.audit.behaviour import RESTARTED
from nemo_gym.audit.environment import AuditSettings, EnvironmentAudit
from nemo_gym.audit.gold_scripts import GoldScript
from tests.audit.planted_verifiers import NUMBERS, is_number, make_row, open_gym


async def test_a_restart_that_changes_verdicts_is_a_flip(tmp_path: Path) -> None:
    audit = EnvironmentAudit("planted", "planted", NUMBERS, AuditSettings(tmp_path))
    gym, caller = open_gym(is_number)
    async with gym.running():
        journal, known = await audit.run(caller)
    after, caller = open_gym(lambda text, row: not is_number(text, row))
    async with after.running():
        await audit.run_again(caller, journal, known)
    card = audit.build_card(journal)
    journal.close()
    assert card.classes[0].kind == RESTARTED
    assert card.classes[0].rate.wrong == card.classes[0].rate.probes > 6
    assert "6 number" in card.notes[0]


async def test_a_budget_leaves_tasks_for_a_resumed_audit(tmp_path: Path) -> None:
    gym, caller = open_gym(is_number)
    async with gym.running():
        for limit, tasks in ((1, 1), (None, len(NUMBERS))):
            settings = AuditSettings(tmp_path, resume=tasks > 1, max_probes=limit, at_once=1)
            audit = EnvironmentAudit("planted", "planted", NUMBERS, settings)
            journal, _ = await audit.run(caller)
            card = audit.build_card(journal)
            journal.close()
            assert sum(name.startswith("task ") for name in journal.done) == tasks
            assert any("left out" in note for note in card.notes) == (limit is not None)


def test_a_dry_run_counts_attempts() -> None:
    assert EnvironmentAudit("x", "x", NUMBERS, AuditSettings(Path())).count_probes() > 300


async def test_the_card_names_the_classes_for_which_no_probe_is_made(tmp_path: Path) -> None:
    rows = [
        make_row("Which range?", expected_answer="2024-03-03/2024-03-05", answer_type="text"),
        make_row("Which day?", expected_answer="3/4/2024", answer_type="text"),
        make_row("Which city?"),
        make_row("Which lake?"),
    ]
    scripts = [GoldScript("lake", [], "Titicaca"), GoldScript("river", [], "Amazon")]
    gym, caller = open_gym(lambda text, row: True)
    audit = EnvironmentAudit("planted", "planted", rows, AuditSettings(tmp_path, repeats=False), scripts)
    async with gym.running():
        journal, _ = await audit.run(caller)
    card = audit.build_card(journal)
    journal.close()
    assert card.notes == [
        "Types of the expected answers: 2 text, 2 unknown.",
        "No other spellings are made for 2 text.",
        "No right attempts are made for 1 unknown.",
        "No near misses are made for 2 unknown.",
        "1 of 2 declared scenes are of no task here and were not sent, first 'river'. (Scenes of a judge are of none.)",
    ]
    assert set(card.notes) < set(card.write_text())
