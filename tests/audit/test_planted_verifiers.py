"""Every planted bug ranks below its repair, and no repaired verifier is accused."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.audit.card import Card
from nemo_gym.audit.environment import AuditSettings, EnvironmentAudit
from tests.audit.blind_verifiers import BLIND_PAIRS
from tests.audit.planted_verifiers import PAIRS, Pair, Verify, open_gym


async def audit(pair: Pair, verify: Verify, folder: Path) -> Card:
    gym, caller = open_gym(verify)
    async with gym.running():
        settings = AuditSettings(folder, repeats=pair.name.startswith("every"))
        environment = EnvironmentAudit(pair.name, "planted", pair.rows, settings)
        journal, _ = await environment.run(caller)
        card = environment.build_card(journal)
        journal.close()
    return card


def count_wrong(card: Card) -> int:
    return sum(each.rate.wrong for each in card.classes)


@pytest.mark.parametrize("pair", [*PAIRS, *BLIND_PAIRS], ids=lambda pair: pair.name)
async def test_a_bug_ranks_below_its_repair(pair: Pair, tmp_path: Path) -> None:
    repaired = await audit(pair, pair.repair, tmp_path / "repair")
    buggy = await audit(pair, pair.bug, tmp_path / "bug")

    assert [each.kind for each in repaired.classes if each.rate.wrong] == []
    assert sum(each.failed for each in repaired.classes) == 0
    assert count_wrong(buggy) > count_wrong(repaired)
    worst, worst_repaired = buggy.classes[0].rate.value, repaired.classes[0].rate.value
    assert worst >= worst_repaired
