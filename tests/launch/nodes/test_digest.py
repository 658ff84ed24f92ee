from __future__ import annotations

from pathlib import Path

from nemo_gym.launch.nodes.digest import digest_folder


def test_equal_code_has_an_equal_digest_at_another_path(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "app.py").write_text("print(1)")
        (tmp_path / name / "notes.txt").write_text(name)
    first = digest_folder(tmp_path / "one")
    assert first == digest_folder(tmp_path / "two")
    (tmp_path / "two" / "inner" / "app.py").write_text("print(2)")
    assert first != digest_folder(tmp_path / "two")


def test_a_missing_folder_has_none(tmp_path: Path) -> None:
    assert digest_folder(tmp_path / "missing") is None
