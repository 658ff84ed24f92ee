from __future__ import annotations

from pathlib import Path

from nemo_gym.ecosystem.deliverables import is_deliverable


def test_records_of_the_run_and_folders_are_not_the_agents_work(tmp_path: Path) -> None:
    for name in ("report.pdf", "history.json"):
        (tmp_path / name).touch()
    (tmp_path / "charts").mkdir()
    assert [path.name for path in sorted(tmp_path.iterdir()) if is_deliverable(path)] == ["report.pdf"]
