from __future__ import annotations

from pathlib import Path

from nemo_gym.audit.behaviour import RESTARTED
from nemo_gym.audit.environment import AuditSettings, EnvironmentAudit
from tests.audit.planted_verifiers import NUMBERS, is_number, open_gym


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
