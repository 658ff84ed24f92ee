from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nemo_gym.audit.journal import AuditJournal
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.audit.running import Budget, Probe, run_probes


def build_probe(name: str, ran: list[str]) -> Probe:
    async def probe() -> Sequence[ProbeOutcome]:
        ran.append(name)
        return [ProbeOutcome(name, "gold", Right.ACCEPT, Conclusion.RIGHT, 1.0)] * 2

    return probe


async def test_finished_tasks_are_not_probed_again_and_a_budget_ends_the_audit(tmp_path: Path) -> None:
    ran: list[str] = []
    shown: list[tuple[int, int]] = []
    journal = AuditJournal(tmp_path / "o.jsonl", {}, resume=False)
    journal.add("a", [])
    tasks = {name: build_probe(name, ran) for name in "abcd"}

    left = await run_probes(
        tasks, journal, at_once=1, budget=Budget(3), progress=lambda done, of: shown.append((done, of))
    )

    assert (ran, left) == (["b", "c"], 1)
    assert shown == [(2, 4), (3, 4)]
    assert await run_probes(tasks, journal, at_once=8, budget=Budget()) == 0
    assert ran == ["b", "c", "d"]
    journal.close()
