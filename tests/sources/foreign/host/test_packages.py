"""The facts that tell one version of an installed environment from another."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.sources.foreign.host.packages import compute_digest, describe_package


def test_a_package_is_described_by_its_metadata() -> None:
    about = describe_package("pytest")
    assert about["package"] == "pytest"
    assert about["license"] == "MIT"
    assert str(about["source"]).startswith("https://")


def test_the_digest_changes_with_files_and_options(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "a.pyc").write_text("compiled")
    first = compute_digest(["pytest"], tmp_path, {})
    assert compute_digest(["pytest"], tmp_path, {}) == first
    (tmp_path / "a.pyc").write_text("compiled anew")
    assert compute_digest(["pytest"], tmp_path, {}) == first
    (tmp_path / "a.py").write_text("two")
    changed = compute_digest(["pytest"], tmp_path, {})
    others = {changed, compute_digest(["pytest"], tmp_path, {"players": 3}), compute_digest([], tmp_path, {})}
    assert first not in others
    assert len(others) == 3
